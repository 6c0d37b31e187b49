"""What the CPU can share out."""

from nri.testing.hook_cases.original import cpu_flags


def test_cpu_flags_tell_what_can_be_shared_out() -> None:
    assert cpu_flags.by_flags("flags\t\t: fpu cat_l3 x") == (True, False)
    assert cpu_flags.by_command_line("root=x rdt=cmt,l3cat,mba quiet") == (True, True)
    assert cpu_flags.by_command_line("root=x l3cat") == (False, False)
    assert cpu_flags.vendor("a : b\nvendor_id\t: AuthenticAMD\n") == "AuthenticAMD"
    assert cpu_flags.vendor("") == "unknown"
