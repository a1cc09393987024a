# SPDX-License-Identifier: BSD-3-Clause
#
# The core for a processor that orders memory weakly: built by a cross compiler, run under qemu's
# emulation of one process. It has to compile without a warning, and its tests have to pass.
# Emulation on x86 reorders little, so it does not show errors that only a real processor would
# show.

aarch64_programs="adaptib_unit_base adaptib_unit_match adaptib_unit_channel adaptib_unit_memory adaptib_unit_protocol
    adaptib_unit_schedule
    adaptib_conformance_shm"

# am_list FILE VARIABLE: prints the words of a variable of a Makefile.am
am_list() {
    sed -n "/^$2 = /,/[^\\\\]\$/p" "$1" | sed "s/^$2 = //; s/\\\\\$//" | tr -s ' \n' '  '
}

# build_aarch64 DIR: builds the programs in the directory
build_aarch64() {
    local dir=$1 core=$top/opal/mca/common/adaptib list=$top/test/sources.am program sources arguments=()
    mkdir -p "$dir"
    sed 's/@ADAPTIB_VERSION@/aarch64/; s/@ADAPTIB_HAVE_[A-Z0-9]*@/0/' "$core/adaptib_config.h.in" >"$dir/config.new"
    cmp -s "$dir/config.new" "$dir/adaptib_config.h" || mv "$dir/config.new" "$dir/adaptib_config.h"
    for program in $aarch64_programs; do
        sources=$(am_list "$list" "${program}_SOURCES")
        sources=${sources//\$(conformance_tests)/$(am_list "$list" conformance_tests)}
        arguments+=("${program}_sources=$sources")
    done
    make -j "$jobs" -f "$top/test/lib/aarch64.mk" out="$dir" \
        programs="$(echo $aarch64_programs)" \
        core_sources="$(am_list "$core/Makefile.am" core_sources)" \
        sim_sources="$(am_list "$top/simulator/Makefile.am" libadaptib_sim_la_SOURCES)" "${arguments[@]}"
}

# aarch64_runner PROGRAM SCRIPT: makes a script that runs the program
aarch64_runner() {
    mkdir -p "${2%/*}"
    printf '#!/bin/sh\nexec qemu-aarch64-static "%s" "$@"\n' "$1" >"$2"
    chmod +x "$2"
}

# refuses_big_endian DIR: checks that configure refuses big-endian processors with a message
refuses_big_endian() {
    [ "$top/configure" -nt "$top/opal/mca/common/adaptib/configure.m4" ] || "$top/autogen.pl" || return 1
    mkdir -p "$1" && cd "$1" || return 1
    if ac_cv_c_bigendian=yes "$top/configure" >configure.log 2>&1; then
        echo "configure does not mind"
        return 1
    fi
    tail -n 3 configure.log
    grep -q 'a little-endian processor: adaptib is not written for big-endian ones' configure.log
}
