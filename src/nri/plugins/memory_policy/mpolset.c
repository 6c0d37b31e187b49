/* mpolset: set this process's NUMA memory policy, then become another program.
 *
 *     mpolset --mode MPOL_BIND --nodes 0,2-3 [--flags MPOL_F_STATIC_NODES,...] [--ignore-errors] [-v] [--] COMMAND [ARG]...
 *     mpolset [--mode help] [--flags help]
 *
 * The plugin memory-policy mounts it into containers and puts it before their command: a policy is inherited by what a
 * process becomes, and nobody else can give it one. Flags have one dash or two, a value after a blank or after '='.
 * Without a command it prints the policy that it has itself. Static, so that it needs nothing of the image:
 *
 *     cc -O2 -static -o mpolset mpolset.c
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES 1024
#define BITS (8 * sizeof(unsigned long))

struct word {
    const char *name;
    unsigned value;
};

static const struct word modes[] = {
    {"MPOL_DEFAULT", 0}, {"MPOL_PREFERRED", 1}, {"MPOL_BIND", 2}, {"MPOL_INTERLEAVE", 3},
    {"MPOL_LOCAL", 4}, {"MPOL_PREFERRED_MANY", 5}, {"MPOL_WEIGHTED_INTERLEAVE", 6}, {NULL, 0},
};
static const struct word flags[] = {
    {"MPOL_F_STATIC_NODES", 1u << 15}, {"MPOL_F_RELATIVE_NODES", 1u << 14}, {"MPOL_F_NUMA_BALANCING", 1u << 13},
    {NULL, 0},
};

static unsigned long mask[NODES / BITS];

static void say(const char *level, const char *format, va_list rest)
{
    fprintf(stderr, "mpolset: %s ", level);
    vfprintf(stderr, format, rest);
    fputc('\n', stderr);
}

static void fail(const char *format, ...)
{
    va_list rest;
    va_start(rest, format);
    say("error", format, rest);
    va_end(rest);
    exit(1);
}

static void list(const struct word *words)
{
    for (; words->name; words++)
        printf("  %s (%u)\n", words->name, words->value);
    exit(0);
}

static unsigned look_up(const struct word *words, const char *flag, const char *name)
{
    for (const struct word *each = words; each->name; each++)
        if (!strcmp(each->name, name))
            return each->value;
    fail("invalid --%s: %s", flag, name);
    return 0;
}

static long number(const char **text, const char *whole)
{
    char *end;
    long found = isdigit((unsigned char)**text) ? strtol(*text, &end, 10) : -1;
    if (found < 0 || found >= NODES)
        fail("invalid --nodes: %s", whole);
    *text = end;
    return found;
}

static void read_nodes(const char *text)
{
    const char *at = text;
    while (*at) {
        long first = number(&at, text), last = first;
        if (*at == '-')
            at++, last = number(&at, text);
        if (last < first || (*at && *at++ != ','))
            fail("invalid --nodes: %s", text);
        for (; first <= last; first++)
            mask[first / BITS] |= 1ul << first % BITS;
    }
}

static void show(void)
{
    unsigned policy = 0;
    const char *comma = "";
    if (syscall(SYS_get_mempolicy, &policy, mask, (unsigned long)NODES, 0ul, 0ul))
        fail("get_mempolicy: %s", strerror(errno));
    printf("Current memory policy: ");
    for (const struct word *each = modes; each->name; each++)
        if (each->value == (policy & 0x1fff))
            printf("%s", each->name);
    for (const struct word *each = flags; each->name; each++)
        if (policy & each->value)
            printf("|%s", each->name);
    printf(" (%u), nodes: ", policy);
    for (unsigned node = 0; node < NODES; node++)
        if (mask[node / BITS] >> node % BITS & 1)
            printf("%s%u", comma, node), comma = ",";
    putchar('\n');
    exit(0);
}

int main(int argc, char **argv)
{
    const char *mode = NULL;
    unsigned policy = 0;
    int place = 1, ignore = 0, verbose = 0;
    (void)argc;
    for (; argv[place] && argv[place][0] == '-'; place++) {
        char *flag = argv[place] + 1, *value;
        if (!strcmp(argv[place], "--")) {
            place++;
            break;
        }
        flag += *flag == '-';
        if (!strcmp(flag, "v") || !strcmp(flag, "vv")) {
            verbose = 1;
            continue;
        }
        if (!strcmp(flag, "ignore-errors")) {
            ignore = 1;
            continue;
        }
        value = strchr(flag, '=');
        if (value)
            *value++ = 0;
        else if (!(value = argv[++place]))
            fail("--%s needs a value", flag);
        if (!strcmp(value, "help"))
            list(strcmp(flag, "mode") ? flags : modes);
        else if (!strcmp(flag, "mode"))
            mode = value;
        else if (!strcmp(flag, "nodes"))
            read_nodes(value);
        else if (!strcmp(flag, "flags"))
            for (char *each = strtok(value, ","); each; each = strtok(NULL, ","))
                policy |= look_up(flags, "flags", each);
        else
            fail("unknown flag --%s", flag);
    }
    if (!argv[place])
        show();
    if (!mode)
        fail("--mode is missing");
    policy |= isdigit((unsigned char)*mode) ? (unsigned)strtoul(mode, NULL, 10) : look_up(modes, "mode", mode);
    if (verbose)
        fprintf(stderr, "mpolset: debug policy %s (%u), then %s\n", mode, policy, argv[place]);
    /* The kernel looks at one bit less than the count says. */
    if (syscall(SYS_set_mempolicy, policy, mask, (unsigned long)NODES + 1) && !ignore)
        fail("set_mempolicy: %s", strerror(errno));
    execvp(argv[place], argv + place);
    fail("%s: %s", argv[place], strerror(errno));
}
