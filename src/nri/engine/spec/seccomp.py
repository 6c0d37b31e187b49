"""The default seccomp profile of containers.

A system call is allowed, or rejected with EPERM. A call in no list is rejected with ENOSYS, so that programs fall back
to an older call. Three calls depend on their arguments: `clone` must not create namespaces, `socket` must not reach the
hypervisor, `personality` must not disable memory protection. `clone3` passes its flags in memory, where no filter sees
them, so it gets ENOSYS, and C libraries use `clone`.

The lists were made from the manual pages. `ALLOWED` has calls about a program itself, its files, sockets and children;
`BY_CAPABILITY` has calls that are only useful with a capability; `REFUSED` has calls that ordinary containers do not
need, and that attackers have used to escape. For example, containers share the kernel's keys, because keys have no
namespaces; io_uring and userfaultfd have had many exploits.

OCI runtimes ignore names that an architecture lacks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

ALLOWED: dict[str, str] = {
    "files": """
        _llseek access arm_fadvise64_64 arm_sync_file_range cachestat chdir chmod chown chown32 close close_range
        copy_file_range creat dup dup2 dup3 faccessat faccessat2 fadvise64 fadvise64_64 fallocate fchdir fchmod fchmodat
        fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr
        fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futimesat getcwd getdents getdents64
        getxattr getxattrat ioctl lchown lchown32 lgetxattr link linkat listxattr listxattrat llistxattr lremovexattr
        lseek lsetxattr lstat lstat64 mkdir mkdirat mknod mknodat name_to_handle_at newfstatat oldfstat oldlstat oldstat
        open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv
        removexattr removexattrat rename renameat renameat2 rmdir sendfile sendfile64 setxattr setxattrat splice stat
        stat64 statfs statfs64 statx symlink symlinkat sync sync_file_range sync_file_range2 syncfs tee truncate
        truncate64 umask unlink unlinkat utime utimensat utimensat_time64 utimes vmsplice write writev
    """,
    "waiting": """
        _newselect epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old
        eventfd eventfd2 fanotify_mark inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel
        io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit pipe pipe2 poll ppoll ppoll_time64
        pselect6 pselect6_time64 select signalfd signalfd4
    """,
    "memory": """
        brk madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mlock mlock2 mlockall mmap mmap2
        mprotect mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_mrelease
        remap_file_pages
    """,
    "processes": """
        arch_prctl breakpoint cacheflush capget capset execve execveat exit exit_group fork futex futex_requeue
        futex_time64 futex_wait futex_waitv futex_wake get_robust_list get_thread_area getcpu getpgid getpgrp getpid
        getppid getpriority getrandom getrlimit getrusage getsid gettid ioprio_get ioprio_set kill landlock_add_rule
        landlock_create_ruleset landlock_restrict_self modify_ldt nice pause pidfd_open pidfd_send_signal prctl
        prlimit64 process_vm_readv process_vm_writev ptrace restart_syscall riscv_flush_icache riscv_hwprobe rseq
        s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr sched_get_priority_max sched_get_priority_min
        sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
        sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield
        seccomp set_robust_list set_thread_area set_tid_address set_tls setpgid setpriority setrlimit setsid
        swapcontext sysinfo tgkill times tkill ugetrlimit uname uretprobe vfork wait4 waitid waitpid
    """,
    "signals": """
        rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
        rt_sigtimedwait_time64 rt_tgsigqueueinfo sgetmask sigaction sigaltstack signal sigpending sigprocmask sigreturn
        sigsuspend ssetmask
    """,
    "users": """
        getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getresgid getresgid32 getresuid
        getresuid32 getuid getuid32 setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32
        setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setuid setuid32
    """,
    # The kernel rejects setting the node's clock without CAP_SYS_TIME; these calls can also read it.
    "time": """
        adjtimex alarm clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64
        clock_nanosleep clock_nanosleep_time64 getitimer gettimeofday nanosleep setitimer time timer_create timer_delete
        timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime
        timerfd_gettime64 timerfd_settime timerfd_settime64
    """,
    "network": """
        accept accept4 bind connect getpeername getsockname getsockopt listen recv recvfrom recvmmsg recvmmsg_time64
        recvmsg send sendmmsg sendmsg sendto setsockopt shutdown socketcall socketpair
    """,
    "queues": """
        ipc mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64
        mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop semtimedop_time64 shmat shmctl shmdt shmget
    """,
}

BY_CAPABILITY: dict[str, str] = {
    "CAP_BPF": "bpf",
    "CAP_DAC_READ_SEARCH": "open_by_handle_at",
    "CAP_PERFMON": "perf_event_open",
    "CAP_SYSLOG": "syslog",
    "CAP_SYS_ADMIN": """
        bpf fanotify_init fsconfig fsmount fsopen fspick listmount lookup_dcookie mount mount_setattr move_mount
        open_tree perf_event_open pivot_root quotactl quotactl_fd setdomainname sethostname setns statmount
        syslog umount umount2 unshare
    """,
    "CAP_SYS_BOOT": "reboot",
    "CAP_SYS_CHROOT": "chroot",
    "CAP_SYS_MODULE": "delete_module finit_module init_module",
    "CAP_SYS_NICE": "get_mempolicy mbind migrate_pages move_pages set_mempolicy set_mempolicy_home_node",
    "CAP_SYS_PACCT": "acct",
    "CAP_SYS_PTRACE": "kcmp pidfd_getfd process_madvise",
    "CAP_SYS_RAWIO": "ioperm iopl",
    "CAP_SYS_TIME": "clock_settime clock_settime64 settimeofday stime",
    "CAP_SYS_TTY_CONFIG": "vhangup",
}

REFUSED: str = """
    _sysctl add_key io_uring_enter io_uring_register io_uring_setup kexec_file_load kexec_load keyctl nfsservctl
    request_key swapoff swapon sysfs uselib userfaultfd ustat vm86 vm86old
"""


_EPERM, _ENOSYS = 1, 38
#: All CLONE_NEW flags: mount, cgroup, UTS, IPC, user, process and network namespaces.
_NEW_NAMESPACES = 0x7E020000
_AF_VSOCK = 40
#: Linux; 32-bit Linux; the same two with UNAME26, which reports a kernel 2.6; and the query of the current value.
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
#: By architecture as in uname: its name in profiles, then the architectures whose programs its kernel can also run.
_ARCHITECTURES = {
    "x86_64": ("X86_64", "X86", "X32"),
    "aarch64": ("AARCH64", "ARM"),
    "armv7l": ("ARM",),
    "i686": ("X86",),
    "ppc64le": ("PPC64LE",),
    "riscv64": ("RISCV64",),
    "s390x": ("S390X", "S390"),
}


def default_profile(architecture: str, capabilities: Collection[str]) -> dict[str, Any]:
    """Return the default ``linux.seccomp`` of a container with these capabilities.

    For an unknown architecture the profile has no list of architectures, so the OCI runtime chooses them.
    """
    allowed = {name for names in ALLOWED.values() for name in names.split()}
    gated = {name for names in BY_CAPABILITY.values() for name in names.split()}
    for capability in capabilities:
        allowed |= set(BY_CAPABILITY.get(capability, "").split())
    administers = "CAP_SYS_ADMIN" in capabilities
    rules: list[dict[str, Any]] = [{"names": sorted(allowed), "action": "SCMP_ACT_ALLOW"}]
    if administers:
        rules.append({"names": ["clone", "clone3"], "action": "SCMP_ACT_ALLOW"})
    else:
        # On s390 the flags are the second argument.
        flags = 1 if architecture == "s390x" else 0
        rules.append(_allow("clone", flags, _NEW_NAMESPACES, "SCMP_CMP_MASKED_EQ"))
    rules.append(_allow("socket", 0, _AF_VSOCK, "SCMP_CMP_NE"))
    rules += [_allow("personality", 0, value, "SCMP_CMP_EQ") for value in _PERSONALITIES]
    refused = sorted((gated | set(REFUSED.split())) - allowed)
    rules.append({"names": refused, "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM})
    profile: dict[str, Any] = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": _ENOSYS,
        "syscalls": rules,
    }
    if architecture in _ARCHITECTURES:
        profile["architectures"] = [f"SCMP_ARCH_{name}" for name in _ARCHITECTURES[architecture]]
    return profile


def _allow(name: str, index: int, value: int, comparison: str) -> dict[str, Any]:
    """Return a condition on one argument. In a masked comparison `value` is the mask, and these bits must be 0."""
    argument = {"index": index, "value": value, "op": comparison}
    if comparison == "SCMP_CMP_MASKED_EQ":
        argument["valueTwo"] = 0
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": [argument]}


#: The names that profiles in Docker's form use for machines, where they differ from those of uname.
_PROFILE_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "x86"}


def host_profile(profile: Mapping[str, Any], architecture: str, capabilities: Collection[str]) -> dict[str, Any]:
    """The ``linux.seccomp`` of a profile on the host, which may have Docker's form or an older one.

    In Docker's form `archMap` lists architectures, and `includes` and `excludes` make rules depend on architecture and
    capabilities. Old rules have one `name`. `minKernel` is ignored, because it only matters for kernels before 4.8.

    Args:
        profile: the content of the file.
        architecture: the machine's architecture, as in uname.
        capabilities: the bounding set of the container.

    Raises:
        ValueError: the profile is invalid.
    """
    if not isinstance(profile.get("defaultAction"), str):
        raise ValueError("defaultAction is missing")  # noqa: TRY004  (the file is wrong, not the call)
    spec = {key: value for key, value in profile.items() if key not in ("archMap", "syscalls") and value is not None}
    if groups := _entries(profile, "archMap"):
        if profile.get("architectures"):
            raise ValueError("architectures and archMap exclude each other")
        native = (_ARCHITECTURES.get(architecture) or (architecture.upper(),))[0]
        matches = [group for group in groups if group.get("architecture") == f"SCMP_ARCH_{native}"][:1]
        architectures = [
            name for group in matches for name in (group["architecture"], *(group.get("subArchitectures") or ()))
        ]
        if architectures:
            spec["architectures"] = architectures
    machine = _PROFILE_ARCHITECTURES.get(architecture, architecture)
    rules = [_rule(rule) for rule in _entries(profile, "syscalls") if _rule_applies(rule, machine, capabilities)]
    if rules:
        spec["syscalls"] = rules
    return spec


def _entries(profile: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    entries = profile.get(key) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"{key} must be a list of objects")
    return entries


def _rule_applies(rule: Mapping[str, Any], machine: str, capabilities: Collection[str]) -> bool:
    """Return whether the conditions of a rule are true."""
    includes, excludes = (rule.get(key) or {} for key in ("includes", "excludes"))
    if not isinstance(includes, dict) or not isinstance(excludes, dict):
        raise ValueError("includes and excludes must be objects")  # noqa: TRY004
    arches = includes.get("arches") or ()
    return (
        (not arches or machine in arches)
        and machine not in (excludes.get("arches") or ())
        and all(capability in capabilities for capability in includes.get("caps") or ())
        and not any(capability in capabilities for capability in excludes.get("caps") or ())
    )


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a rule of the profile to a rule of the OCI spec."""
    names = rule.get("names") or []
    if name := rule.get("name"):
        if names:
            raise ValueError(f"the rule of {name} has both name and names")
        names = [name]
    spec = {key: rule[key] for key in ("action", "errnoRet") if rule.get(key) is not None}
    return {"names": names, **spec, **({"args": rule["args"]} if rule.get("args") else {})}
