# Init process of a node: waits for its network, sets up its mounts, and runs slurmd.
set -e
name=$1 address=$2 folder=$3 size=$4 sys=$5

read -r plugged # fails, and ends the node, if its starter dies first
hostname "$name"
ip link set lo up
ip address add "$address/24" dev eth0
ip link set eth0 up

mount --bind "$folder/hosts" /etc/hosts
mount --bind "$folder/nsswitch.conf" /etc/nsswitch.conf
mount -t tmpfs -o "size=$size,mode=1777" local "$folder/local"
mount -t tmpfs -o mode=1777 shm /dev/shm

# A new /sys shows the node's network devices; the cgroups stay the host's.
mount -t sysfs sysfs "$sys"
[ ! -d /sys/fs/cgroup ] || mount --rbind /sys/fs/cgroup "$sys/fs/cgroup"
mount --rbind "$sys" /sys

slurmd -D &
sleep infinity & # the node stays up if slurmd crashes
wait             # reaps orphans, as an init process must
