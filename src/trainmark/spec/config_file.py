"""Reads and writes RunConfig as config.toml and Site as site.toml."""

import hashlib
import json
import tomllib
from pathlib import Path

from trainmark.spec.config import RunConfig
from trainmark.spec.files import read_regular
from trainmark.spec.site import Site


def config_text(config: RunConfig) -> str:
    """Returns the TOML text with which `trainmark run --config` repeats the run."""
    import tomli_w

    return tomli_w.dumps(config.model_dump(exclude_none=True))


def site_text(site: Site) -> str:
    """Returns the TOML text of a site, for `--site`."""
    import tomli_w

    return tomli_w.dumps(site.model_dump(exclude_none=True))


def read_config(path: Path) -> RunConfig:
    """Reads what `config_text` wrote."""
    return RunConfig.model_validate(tomllib.loads(read_regular(path).decode("utf-8")))


def read_site(path: Path) -> Site:
    """Reads what `site_text` wrote."""
    return Site.model_validate(tomllib.loads(read_regular(path).decode("utf-8")))


def config_hash(config: RunConfig) -> str:
    """Returns a short checksum of the configuration."""
    text = json.dumps(config.model_dump(exclude_none=True), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
