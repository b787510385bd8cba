"""What a site file may say: wrong ones are refused in one line that helps, and right ones survive being stored."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from trainmark.plan.resolve import read_site_file
from trainmark.spec.config_file import read_site, site_text
from trainmark.spec.errors import ConfigError
from trainmark.spec.site import Site


def refusal(folder: Path, text: str) -> str:
    """The one line with which a site file is refused."""
    file = folder / "site.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        read_site_file(file)
    message = str(error.value)
    assert message.startswith(f"{file}: ")
    assert message.isprintable()
    assert len(message) < 500 + len(str(file))
    return message.removeprefix(f"{file}: ")


def with_group(line: str) -> str:
    return f'name = "s"\n[[groups]]\nslots = [{{ cores = "0" }}]\n{line}\n'


def with_slurm(line: str) -> str:
    return f'name = "s"\n[[groups]]\nslots = [{{ cores = "0" }}]\n[slurm]\n{line}\n'


@pytest.mark.parametrize(
    "line",
    ['count = "3"', "count = true", "count = 2.0", 'bf16 = "yes"', "shared_cores = 1", 'memory_gib_per_slot = "8"'],
)
def test_a_value_of_another_type_is_refused_in_a_group(tmp_path: Path, line: str) -> None:
    key = line.split()[0]
    assert refusal(tmp_path, with_group(line)).startswith(f"'groups.0.{key}' is wrong: it must be ")


@pytest.mark.parametrize("line", ['time_limit_minutes = "24:00:00"', "max_queued = true", "account = 7"])
def test_a_value_of_another_type_is_refused_for_slurm(tmp_path: Path, line: str) -> None:
    key = line.split()[0]
    assert refusal(tmp_path, with_slurm(line)).startswith(f"'slurm.{key}' is wrong: it must be ")


@pytest.mark.parametrize("cores", ['["0"]', "[true]", "[-1]", "[0.5]", "[65536]", '"65536"', '"²"', '"٣"', '"0-9_9"'])
def test_what_is_no_core_is_refused(tmp_path: Path, cores: str) -> None:
    assert "cores" in refusal(tmp_path, f'name = "s"\n[[groups]]\nslots = [{{ cores = {cores} }}]\n')


def test_whole_numbers_may_stand_where_fractions_may(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(with_group("memory_gib_per_slot = 8\n[slurm]\npoll_s = 5"))
    site = read_site_file(file)
    assert (site.groups[0].memory_gib_per_slot, site.slurm.poll_s) == (8.0, 5.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # the misspelling explains more than what is missing for it
        ('name = "s"\n[[group]]\nslots = []\n', "there is no setting 'group'. Did you mean 'groups'?"),
        ('nme = "s"\n[[groups]]\nslots = [{ cores = "0" }]\n', "there is no setting 'nme'. Did you mean 'name'?"),
        (with_slurm('acount = "x"'), "there is no setting 'slurm.acount'. Did you mean 'account'?"),
        (with_group('memory_per_slot = "x"'), "Did you mean 'memory_gib_per_slot'?"),
        ('name = "s"\n[[groups]]\nslots = [{ core = "0" }]\n', "'groups.0.slots.0.core'. Did you mean 'cores'?"),
        ('name = "s"\n[groups]\nslots = [{ cores = "0" }]\n', "'groups' is a list, but got {"),
        ('name = "s"\n[groups]\nslots = [{ cores = "0" }]\n', "Write [[groups]] above each of its tables"),
        ('name = "s"\n[[groups]]\nslots = { cores = "0" }\n', "Write [[groups.slots]] above each of its tables"),
        ('name = "s"\n[[groups]]\nslots = 4\n', "'groups.0.slots' is a list, but got 4."),
        ('name = "s"\n[[groups]]\nslots = []\n', "it must have at least 1 item(s), but got []"),
        ('name = "s"\nsetup = "module load python"\n[[groups]]\nslots = [{ cores = "0" }]\n', "Write setup = [ … ]."),
        ('name = "s"\nslurm = "yes"\n[[groups]]\nslots = [{ cores = "0" }]\n', "'slurm' is a section"),
    ],
)
def test_a_slip_of_the_pen_is_explained(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(tmp_path, text)


def test_an_error_in_a_large_group_does_not_repeat_the_group(tmp_path: Path) -> None:
    names = ", ".join(f'"cn{number:04d}"' for number in range(1000))
    assert refusal(tmp_path, with_group(f"count = 999\nnames = [{names}]")) == (
        "'groups.0' is wrong: 1000 names for 999 nodes; give one name per node or none. Change it and try again."
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (with_group("count = 1000000000000"), "it must be at most 1,000,000, but got"),
        (with_group('prefix = ""'), "'' is not a node name"),
        (with_group('prefix = "-n"'), "'-n' is not a node name"),
        (with_group('names = ["a,b"]'), "'a,b' is not a node name"),
        (with_group('names = ["n1:4"]'), "'n1:4' is not a node name"),
        (with_group('names = ["n1", "n1"]'), "two nodes are called 'n1'"),
        (with_group('names = ["$(reboot)"]'), "is not a node name"),
        (with_group('gres = "gpu:a100:4"'), "without a count"),
        (with_group('gres = "gpu:4"'), "without a count"),
        (with_group('gres = "gpu,shard"'), "is not an accelerator type"),
        (with_group('network_interface = "ib0,ib1"'), "is not a network interface; give one name"),
        (with_group('network_interface = "eth0/../x"'), "is not a network interface"),
        (with_group('local_storage = "scratch"'), "is not an absolute path"),
        (with_group('local_storage = ""'), "is not an absolute path"),
        (with_group('local_storage = "/tmp/$(id)"'), "is not an absolute path"),
        (with_group('local_storage = "/tmp/`id`"'), "is not an absolute path"),
        (with_group('local_storage = "/tmp;id"'), "is not an absolute path"),
        (with_group('partition = "-x"'), "without a leading dash"),
        (with_group('partition = "a b"'), "'a b' is not a Slurm name"),
        (with_group('partition = "a\\nb"'), "control character"),
        (
            'name = "s"\n[[groups]]\nslots = [{ cores = "0", accelerator = 0 }, { cores = "1", accelerator = 0 }]\n',
            "accelerator 0 is in two slots",
        ),
        (with_slurm('account = "a; id"'), "is not a Slurm name"),
        (with_slurm('options = ["--constraint rome"]'), "write it like --constraint=rome"),
        (with_slurm('options = ["-C rome"]'), "write it like --constraint=rome"),
        (with_slurm('options = ["--exclude=a #b"]'), "contains no spaces, quotes"),
        (with_slurm('options = ["--account=x"]'), "use slurm.account"),
        (with_slurm('options = ["--gres=gpu:2"]'), "use groups.gres"),
        (with_slurm('options = ["--array=1-4"]'), "--array is set by trainmark"),
        (with_slurm('options = ["--comment=mine"]'), "--comment is set by trainmark"),
        (with_slurm('options = ["--wrap=id"]'), "does not submit a script"),
        # sbatch completes names that are cut short
        (with_slurm('options = ["--arra=0-9"]'), "--arra, an abbreviation of --array, is set by trainmark"),
        (with_slurm('options = ["--job-n=x"]'), "--job-n, an abbreviation of --job-name, is set by trainmark"),
        (with_slurm('options = ["--reque"]'), "--reque, an abbreviation of --requeue, is set by trainmark"),
        (
            with_slurm('options = ["--test-o"]'),
            "with --test-o, an abbreviation of --test-only, sbatch does not submit",
        ),
        (with_slurm('options = ["--acc=x"]'), "--acc, an abbreviation of --account, has its own key"),
        ('name = ""\n[[groups]]\nslots = [{ cores = "0" }]\n', "'name' is wrong: it is empty"),
        ('name = "s"\npython = "-m"\n[[groups]]\nslots = [{ cores = "0" }]\n', "'-m' is an option, not a program"),
        ('name = "s"\ncontainer = ["--nv"]\n[[groups]]\nslots = [{ cores = "0" }]\n', "'--nv' is an option"),
        ('name = "s"\ncontainer = [""]\n[[groups]]\nslots = [{ cores = "0" }]\n', "it is empty"),
        ('name = "s"\nsetup = ["a\\nb"]\n[[groups]]\nslots = [{ cores = "0" }]\n', "control character '\\n'"),
        ('name = "s"\nsetup = ["a\\u202Eb"]\n[[groups]]\nslots = [{ cores = "0" }]\n', "control character"),
    ],
)
def test_a_value_that_no_cluster_has_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(tmp_path, text)


def test_names_tell_how_many_nodes_there_are(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(with_group('names = ["a", "b", "c"]'))
    assert read_site_file(file).num_nodes == 3


def test_what_real_clusters_have_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(
        """
        name = "Höchstleistungsrechner 2"
        setup = ['module load "python/3.11"; export A=$HOME/b', "source ~/venv/bin/activate"]
        container = ["apptainer", "exec", "--nv", "--bind", "/data:/data,/local", "my image.sif"]
        python = "/opt/my python/bin/python3"
        [[groups]]
        names = ["r01n1.cluster.example", "r01_n2"]
        slots = [{ cores = [0, 2], accelerator = 0 }, { cores = "1,3", accelerator = 3 }]
        partition = "gpu,gpu-long"
        gres = "gpu:nvidia_a100-sxm4-40gb"
        network_interface = "enp65s0f0.100"
        local_storage = "/scratch/${USER}/$SLURM_JOB_ID"
        [[groups]]
        slots = [{ cores = "0", accelerator = 0 }]
        gres = "gpu:1080"
        local_storage = "$TMPDIR"
        [slurm]
        account = "k1234@gpu+x"
        options = ["--constraint=[rack1|rack2]&ib", "--exclude=n[1-3]", "--exclusive", "--licenses=scratch:1",
                   "--nodel=n1", "--ntasks-per-core=1", "--mem-bind=local", "--time-min=5", "--const=rome"]
        """
    )
    site = read_site_file(file)
    assert site.groups[0].slots[1].cores == (1, 3)
    assert site.groups[1].gres == "gpu:1080"
    assert site.slurm.options[0] == "--constraint=[rack1|rack2]&ib"


# Every text of a site file, by where it stands.
TEXTS = {
    "name": lambda text: {"name": text},
    "setup": lambda text: {"setup": [text]},
    "container": lambda text: {"container": ["run", text]},
    "python": lambda text: {"python": text},
    "prefix": lambda text: {"groups": [{"prefix": text}]},
    "names": lambda text: {"groups": [{"names": [text]}]},
    "partition": lambda text: {"groups": [{"partition": text}]},
    "gres": lambda text: {"groups": [{"gres": text}]},
    "network_interface": lambda text: {"groups": [{"network_interface": text}]},
    "local_storage": lambda text: {"groups": [{"local_storage": text}]},
    "account": lambda text: {"slurm": {"account": text}},
    "qos": lambda text: {"slurm": {"qos": text}},
    "reservation": lambda text: {"slurm": {"reservation": text}},
    "options": lambda text: {"slurm": {"options": [f"--constraint={text}"]}},
    "mpi": lambda text: {"slurm": {"mpi": text}},
}
# Written into a line of a script without quotes.
UNQUOTED = {"prefix", "names", "partition", "gres", "account", "qos", "reservation", "options"}


def site_values(key: str, text: str) -> dict[str, Any]:
    values: dict[str, Any] = {"name": "s", "groups": [{}], **TEXTS[key](text)}
    return {**values, "groups": [{"slots": [{"cores": "0"}], **group} for group in values["groups"]]}


@given(key=st.sampled_from(sorted(TEXTS)), text=st.text(max_size=30))
@example(key="setup", text="'\"\\ # = [] {} \U0001f600 ü")
@example(key="name", text='"""')
@example(key="name", text="'''")
@example(key="container", text="\\u0041\\")
@example(key="local_storage", text="/local/${USER}/$x/%%")
@example(key="options", text="a|b&[c]")
def test_a_hostile_text_is_refused_or_survives_being_stored(
    tmp_path_factory: pytest.TempPathFactory, key: str, text: str
) -> None:
    try:
        site = Site.model_validate(site_values(key, text))
    except ValidationError:
        return
    file = tmp_path_factory.getbasetemp() / "stored-site.toml"
    file.write_text(site_text(site), encoding="utf-8")
    assert read_site(file) == site
    assert text.isprintable()
    if key in UNQUOTED:
        assert not set(text) & set(" \t'\"\\#")


@given(key=st.sampled_from(sorted(UNQUOTED)), odd=st.sampled_from(" '\"\\#\n\r\t\0\x1b\x7f\x85\u2028\u202e"))
def test_what_ends_a_word_or_a_line_is_refused_wherever_it_stands(key: str, odd: str) -> None:
    for text in (f"{odd}a", f"a{odd}", f"a{odd}b"):
        with pytest.raises(ValidationError):
            Site.model_validate(site_values(key, text))
