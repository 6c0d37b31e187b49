"""The system calls of the default seccomp profile, as data: by subject, by capability, and those refused by name.

Our own choice, made from the manual pages. In `ALLOWED` is what a program does to itself, its files, its sockets and
its children. In `BY_CAPABILITY` is what is of use only with that capability, so a container that lacks it does not need
the call. In `REFUSED` is what no ordinary container needs and what has been a way out of containers before: keys are
not namespaced, io_uring and userfaultfd keep handing attackers of the kernel what they need. A name that an
architecture does not have does no harm: OCI runtimes pass it over. Next: `nri.engine.spec.seccomp`.
"""

from __future__ import annotations

__all__ = ["ALLOWED", "BY_CAPABILITY", "REFUSED"]

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
    # What sets the clock of the node is refused by the kernel without CAP_SYS_TIME; these can also read it.
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
