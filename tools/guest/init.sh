#!/bin/busybox sh
# The guest's first process: init.sh JOB MODULES CHECKOUT (paths as on the machine that started it).
# It puts memory over the read-only root, mounts what a node has, runs JOB/run, writes its exit code, and ends the guest.
# The ports are those of tools/guest/machine.py: 1 is its output, 2 the exit code, 3 the report.
job=$1 modules=$2 checkout=$3
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root

say() { echo "guest: $*" > "${port}1"; }
end() {    # end CODE: write it, and switch off
    echo "$1" > "${port}2"
    busybox poweroff -f
}
fail() {
    say "error: $*"
    end 125
}

# --- a root that one can write to: the shared one below, memory above --------------------------------------------
mount -t proc proc /proc
mount -t devtmpfs dev /dev
port=$(echo /dev/vport*p1)
port=${port%1}
busybox insmod "$modules/kernel/fs/overlayfs/overlay.ko.xz" || fail "no overlay file system in the kernel"
# Any folder that every root has and nothing needs before it is left behind.
mount -t tmpfs -o size=80% tmpfs /sys
mkdir /sys/upper /sys/work /sys/root
mount -t overlay -o lowerdir=/,upperdir=/sys/upper,workdir=/sys/work overlay /sys/root || fail "no writable root"
cd /sys/root
mkdir -p .old proc sys dev run tmp
cp -r "$job" .job
pivot_root . .old
cd /
umount -l /.old && rmdir /.old

# --- what a node has -----------------------------------------------------------------------------------------------
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
ln -s /proc/self/fd /dev/fd
for stream in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${stream%:*}" "/dev/${stream#*:}"; done
mount -t devpts -o ptmxmode=666 devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mkdir /.checkout
mount --bind "$checkout" /.checkout    # for one that lies in a folder that gets hidden now
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs tmpfs /tmp
[ -d "$checkout" ] || { mkdir -p "$checkout" && mount --bind /.checkout "$checkout"; }
mount -t cgroup2 cgroup2 /sys/fs/cgroup || fail "no cgroup v2 in the kernel"
# The kernel asks for modules by itself: for a bridge, for iptables.
mkdir -p /lib/modules
ln -s "$modules" "/lib/modules/$(uname -r)"
ln -sf "$(busybox which busybox)" /sbin/modprobe
modprobe virtio_blk
modprobe bfq
hostname guest
ip link set lo up
ulimit -n 65536

read -r up _ < /proc/uptime
say "up after $up s: Linux $(uname -r), cgroup v2 with $(cat /sys/fs/cgroup/cgroup.controllers)"
sh /.job/run > "${port}1" 2>&1 < /dev/null &
wait $!    # and for the orphans that are adopted meanwhile
code=$?
[ -f /run/report ] && cat /run/report > "${port}3"
end $code
