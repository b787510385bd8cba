# The first process of a node: waits for its cable, mounts what differs from the machine, and runs Slurm's daemon.
set -e
name=$1 address=$2 folder=$3 size=$4 sys=$5

read -r plugged # ends the node when whoever starts it dies first
hostname "$name"
ip link set lo up
ip address add "$address/24" dev eth0
ip link set eth0 up

mount --bind "$folder/hosts" /etc/hosts
mount --bind "$folder/nsswitch.conf" /etc/nsswitch.conf
mount -t tmpfs -o "size=$size,mode=1777" local "$folder/local"
mount -t tmpfs -o mode=1777 shm /dev/shm

# A fresh /sys shows the node's own network devices; the control groups in it stay the machine's.
mount -t sysfs sysfs "$sys"
[ ! -d /sys/fs/cgroup ] || mount --rbind /sys/fs/cgroup "$sys/fs/cgroup"
mount --rbind "$sys" /sys

slurmd -D &
sleep infinity & # the node stays on when its daemon crashes
wait             # also for orphans, which every first process must reap
