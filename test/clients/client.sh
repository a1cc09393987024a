# SPDX-License-Identifier: BSD-3-Clause
#
# Functions that the clients and the fault tests share; sourced, not run. From the environment:
#   ADAPTIB_MPIRUN  mpirun and the arguments of every run
#   ADAPTIB_WAYS    transports that replace those that a client names: ADAPTIB_WAYS="vader ucx"
#                   shows if a test that fails over adaptib fails over its peers, too
#   ADAPTIB_BRIEF   not empty: shorter tests with three times the time, for a slow machine
#   ADAPTIB_TMP     a directory to work in
# Exit status of a client: 0 passed, 77 skipped (with a line that says why), anything else failed.

set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
name=$(basename "$0")
programs=$here/../mpi
: "${ADAPTIB_MPIRUN:=mpirun --oversubscribe}"

# mpirun arguments that choose the transport of a run.
declare -A way_arguments=(
    [mtl]="--mca pml cm --mca mtl adaptib"
    [btl]="--mca pml ob1 --mca btl adaptib,self"
    [both]="--mca pml cm --mca mtl adaptib --mca btl adaptib,self"
    [vader]="--mca pml ob1 --mca btl vader,self"
    [ucx]="--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any"
)
read -ra over_adaptib <<<"$ADAPTIB_MPIRUN ${way_arguments[mtl]}"
read -ra over_reference <<<"$ADAPTIB_MPIRUN ${way_arguments[vader]}"

if [ -n "${ADAPTIB_TMP:-}" ]; then
    work=$ADAPTIB_TMP/$name
    rm -rf "$work"
    mkdir -p "$work"
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi

fail() {
    echo "FAILED $name: $*" >&2
    exit 1
}

skip() {
    echo "$name: skipped: $*"
    exit 77
}

# every WAYS RANKS COMMAND...: runs the command for each transport and each number of ranks
# ("mtl btl", "2 4"). Sets way, ranks, and over, which is mpirun with all arguments before the
# program.
every() {
    local ways=${ADAPTIB_WAYS:-$1} counts=$2
    shift 2
    for way in $ways; do
        [ -n "${way_arguments[$way]:-}" ] || fail "there is no way \"$way\": ${!way_arguments[*]}"
        for ranks in $counts; do
            read -ra over <<<"$ADAPTIB_MPIRUN ${way_arguments[$way]} -np $ranks"
            "$@"
        done
    done
}

# need COMMAND PACKAGE
need() {
    command -v "$1" >/dev/null || skip "there is no $1 (Debian package: $2)"
}

# need_python: sets python to an interpreter that has numpy and mpi4py; the python3 in the path need
# not be the one that Debian's packages are for
need_python() {
    for python in python3 /usr/bin/python3; do
        "$python" -c 'import numpy, mpi4py' 2>/dev/null && return 0
    done
    skip "no python3 has both numpy and mpi4py (Debian packages: python3-numpy, python3-mpi4py)"
}

# compile PROGRAM [FLAG...]: builds a program of test/mpi in the work directory
compile() {
    mpicc -std=gnu11 -O2 -Wall -Wextra -pthread -o "$work/$1" "$programs/$1.c" "${@:2}" \
        >"$work/compile.log" 2>&1 || { cat "$work/compile.log" >&2; fail "$1.c does not compile"; }
}

# other_hosts: makes every host that mpirun is given a namespace of this host (test/mpi/hosts.sh).
# PRTE_ is for Open MPI 5.
other_hosts() {
    export OMPI_MCA_plm_rsh_agent=$programs/hosts.sh OMPI_MCA_oob_tcp_if_include=lo
    export PRTE_MCA_plm_ssh_agent=$programs/hosts.sh
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

# within SECONDS COMMAND...: runs the command with its output in $work/out. Sets seconds, the time
# that it had, and status, which is 124 or 137 if that was not enough.
within() {
    seconds=$1
    shift
    [ -z "${ADAPTIB_BRIEF:-}" ] || seconds=$((3 * seconds))
    timeout -k 5 "$seconds" "$@" >"$work/out" 2>&1 </dev/null
    status=$?
    sed -i 's/\x00//g' "$work/out" # Open MPI 5 says zeros
}

# limited SECONDS COMMAND...: does the same as within, and fails if the time was not enough
limited() {
    within "$@"
    if [ "$status" = 124 ] || [ "$status" = 137 ]; then
        tail -n 30 "$work/out" >&2
        fail "not ended within $seconds s: ${*:2}"
    fi
}

# shm_names: prints the names in /dev/shm, but for virtual adapters of any job, which stay by intention
# (simulator/adapter/README.md)
shm_names() {
    ls -A /dev/shm | grep -v '^adaptib-hca' | sort
}

# clean_before, clean_after PROGRAM: check that a run has left no name in /dev/shm and no process of
# PROGRAM (a path in the work directory, so that it is no other program's process). Names have two
# seconds to go; names that other running programs hold do not count.
clean_before() {
    shm_names >"$work/shm.before"
}

clean_after() {
    local tries new left
    for tries in $(seq 1 20); do
        new=$(shm_names | comm -13 "$work/shm.before" -)
        left=$(processes_of "$1")
        [ -z "$new$left" ] && return 0
        sleep 0.1
    done
    # A name that another running program holds open belongs to that program.
    for tries in $new; do
        held "/dev/shm/$tries" || fail "left in /dev/shm: $tries"
    done
    [ -z "$left" ] || { kill -9 $left; fail "processes still running: $left"; }
}

# held FILE: returns 0 if a running process has the file open or mapped
held() {
    grep -qsF -- "$1" /proc/[0-9]*/maps && return 0
    local descriptor
    for descriptor in /proc/[0-9]*/fd/*; do
        [ "$(readlink "$descriptor" 2>/dev/null)" = "$1" ] && return 0
    done
    return 1
}

# processes_of PROGRAM: prints the numbers of the processes that execute this file
processes_of() {
    local process
    for process in /proc/[0-9]*; do
        if [ "$(readlink "$process/exe" 2>/dev/null)" = "$1" ]; then
            echo "${process##*/}"
        fi
    done
}

# wait_for FILE SECONDS: waits until the file exists and is not empty
wait_for() {
    local tries
    for tries in $(seq 1 $((10 * $2))); do
        [ -s "$1" ] && return 0
        sleep 0.1
    done
    return 1
}

# says COUNT PATTERN: checks that exactly COUNT lines of the output ("some": at least one) have the
# pattern
says() {
    local found
    found=$(grep -cE -- "$2" "$work/out")
    if [ "$1" = some ]; then
        [ "$found" -gt 0 ] && return 0
    elif [ "$found" = "$1" ]; then
        return 0
    fi
    cat "$work/out" >&2
    fail "expected $1 line(s) with \"$2\", found $found in the output above"
}
