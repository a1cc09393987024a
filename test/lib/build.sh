# SPDX-License-Identifier: BSD-3-Clause
#
# Builds of adaptib, each variant in a directory of its own below build_root:
#   release   components (installed to its components/), unit tests, MPI programs
#   asan      unit tests under AddressSanitizer and UBSan, and fuzz targets with libFuzzer
#   tsan      unit tests under ThreadSanitizer
#   mutation  unit tests over a core with mutants (test/mutation)
#   coverage  unit tests that count what they run of the core
# All but the first use clang, which compiles for sanitizers in half of gcc's time.
#
# Groups of sources are compiled together (together.py), which takes less than half of the time:
# most of it goes into headers, and into functions that each source needs compiled once more. If a
# group does not compile, its build goes on with each source by itself. The release build groups the
# tests only; it compiles each source of the core by itself, and so finds headers that a source uses
# and does not include. The builds with clang also precompile standard headers and GoogleTest's
# (standard.h). Nothing is precompiled or grouped for ccache, which saves more. The Makefiles do not
# know about this: the flags and objects are on make's command line, and a make by hand does without.

# Prints configure's arguments, one per line. -O1 compiles faster, and the sanitizers' reports show
# more of the calls; -g1 has the lines that reports name, and compiles in 2/3 of the time of -g.
build_options() {
    local clang=(CC=clang CXX=clang++ CFLAGS="-g1 -O1" CXXFLAGS="-g1 -O1")
    case $1 in
        release) printf '%s\n' --enable-werror CFLAGS="-g1 -O2" CXXFLAGS="-g1 -O2" ;;
        asan) printf '%s\n' --enable-werror --enable-asan --enable-fuzzing "${clang[@]}" ;;
        mutation)
            printf '%s\n' CPPFLAGS="-DADAPTIB_AUDITS -D_GLIBCXX_ASSERTIONS" "${clang[@]}" \
                CXXFLAGS="-g1 -O1 -Wno-c++11-narrowing" ;;
        coverage)
            local counted="-g1 -O1 -fprofile-instr-generate -fcoverage-mapping"
            printf '%s\n' CC=clang CXX=clang++ CFLAGS="$counted" CXXFLAGS="$counted" ;;
        tsan) printf '%s\n' --enable-werror --enable-tsan "${clang[@]}" ;;
        *) die "no build variant \"$1\"" ;;
    esac
}

# build_adaptib VARIANT [TARGET...]: runs autogen and configure if necessary; then makes, installs
# (release), and makes the targets in test/. Prints one line; on failure prints the end of the log
# and fails.
build_adaptib() {
    local variant=$1 dir=$build_root/$1 log=$logs/build-$1.log start=$SECONDS
    shift
    printf 'build %-8s ' "$variant"
    if (build_steps "$variant" "$@") >"$log" 2>&1; then
        printf 'ok %4d s%s\n' $((SECONDS - start)) "$(sed -n "s/^$one_by_one$/ (&)/p" "$log")"
    else
        printf 'FAILED %4d s\n' $((SECONDS - start))
        tail -n 30 "$log"
        say "all of it is in $log"
        return 1
    fi
}

build_steps() {
    local variant=$1 dir=$build_root/$1 options
    shift
    # make itself repeats autogen and configure when their sources have changed.
    if [ ! -f "$top/configure" ] || [ ! -f "$top/test/Makefile.in" ]; then
        "$top/autogen.pl" || return 1
    fi
    mapfile -t options < <(build_options "$variant")
    [ "$variant" = release ] || configured "$dir" "${options[@]}" || rm -rf "$dir"
    mkdir -p "$dir" && cd "$dir" || return 1
    if [ ! -f Makefile ]; then
        # shellcheck disable=SC2086
        "$top/configure" --with-component-dir="$dir/components" "${options[@]}" \
            ${ADAPTIB_CONFIGURE_OPTIONS:-} || return 1
    fi
    if [ "$variant" = release ]; then
        make -j "$jobs" && make install || return 1
    fi
    precompile && group_sources "$@" || return 1
    if ! make_programs "$@"; then
        [ ${#grouped[@]} -gt 0 ] || return 1
        say "$one_by_one"
        grouped=()
        make_programs "$@"
    fi
}

one_by_one="once more, each source by itself"

# configured DIRECTORY OPTION...: returns 0 if configure ran there with at least these options
configured() {
    local directory=$1 option had=()
    [ -f "$directory/config.status" ] || return
    eval "had=($("$directory/config.status" --config))"
    for option in "${@:2}"; do
        printf '%s\n' "${had[@]}" | grep -qxF -e "$option" || return
    done
}

# make_programs [TARGET...]: makes the core, and the targets in test/
make_programs() {
    local arguments=(-j "$jobs" "${precompiled[@]}" "${grouped[@]}")
    make -C opal/mca/common/adaptib "${arguments[@]}" libadaptib_core.la || return 1
    [ $# -eq 0 ] || make -C test "${arguments[@]}" "$@"
}

# build_tsan_components PROGRAM...: in the tsan build, which build_adaptib has made, makes and
# installs the components, and makes these MPI programs (test/mpi/PROGRAM.c), all under
# ThreadSanitizer. Its run-time library is in the programs, so a component lacks its symbols. A
# program in C exports those only that its libraries name when it is linked; without its
# __cxa_guard_*, ThreadSanitizer does not see who made a function's static object.
build_tsan_components() (
    cd "$build_root/tsan" && precompile && group_sources || return 1
    arguments=(-j "$jobs" "${precompiled[@]}" "${grouped[@]}" LDFLAGS=-Wl,-z,undefs)
    make "${arguments[@]}" all && make "${arguments[@]}" install &&
        make -j "$jobs" -C test "${@/#/mpi/}" \
            CFLAGS="$(make_value test CFLAGS) -fsanitize=thread -DMOST_LEFT_KIB=262144" \
            LDFLAGS=-Wl,--export-dynamic-symbol='__cxa_guard_*'
)

# uses COMPILER: returns 0 if the build in this directory compiles C++ with it (clang, ccache)
uses() {
    local compiler
    compiler=$(make_value test CXX)
    [[ $(basename "$(readlink -f "$(command -v "${compiler%% *}")")") == "$1"* ]]
}

# group_sources [TARGET...]: groups the sources of the programs that the targets in test/ make and,
# if the build in this directory uses clang, of the core's libraries. Sets grouped to the arguments
# with which make uses the groups.
group_sources() {
    local program programs=()
    grouped=()
    ! uses ccache || return 0
    for program in "$@"; do
        programs+=($(make_value test "${program//-/_}"))
    done
    if uses clang; then
        group_sources_of opal/mca/common/adaptib libadaptib_core_la libadaptib_verbs_la &&
            group_sources_of simulator libadaptib_sim_la || return 1
    fi
    group_sources_of test "${programs[@]}" || return 1
    # The Makefiles include the dependencies of their own objects only.
    grouped+=(--eval '-include $(wildcard together/.deps/*.P*o)')
}

# group_sources_of DIRECTORY PROGRAM...: groups the sources of these programs or libraries
group_sources_of() {
    local directory=$1 program lines
    shift
    lines=$(for program in "$@"; do
        printf '%s\n' "${program}_OBJECTS $(make_value "$directory" "${program}_OBJECTS")"
    done | (cd "$directory" && "$top/test/lib/together.py" "$top/$directory")) || return 1
    [ -z "$lines" ] || mapfile -t -O ${#grouped[@]} grouped <<<"$lines"
}

# precompile: compiles standard.h for the build in this directory if that uses clang, and if clang
# or the flags have changed: once for the core, which alone counts what fuzzing covers, once for the
# simulator and once for the tests; clang takes the one that fits. Sets precompiled to the arguments
# with which make uses it and groups: within a group, a local variable may have the name of another
# source's constant.
precompile() {
    local key header=$PWD/precompiled/standard.h
    precompiled=()
    ! uses ccache || return 0
    if ! uses clang; then
        precompiled=(CXXFLAGS="$(make_value test CXXFLAGS) -Wno-shadow")
        return
    fi
    key=$($(make_value test CXX) --version && make_value test CXXCOMPILE && cat "$top/test/lib/standard.h")
    if [ "$(cat precompiled/key 2>/dev/null)" != "$key" ]; then
        rm -rf precompiled && mkdir -p "$header.gch" && cp "$top/test/lib/standard.h" "$header" &&
            precompile_for opal/mca/common/adaptib "$header.gch/core" -fPIC -DPIC &&
            precompile_for simulator "$header.gch/simulator" -fPIC -DPIC &&
            precompile_for test "$header.gch/test" &&
            printf '%s\n' "$key" >precompiled/key || return 1
    fi
    precompiled=(CXXFLAGS="$(make_value test CXXFLAGS) -include $header -Wno-shadow")
}

# precompile_for DIRECTORY FILE [FLAG...]: compiles standard.h as the sources of this directory
precompile_for() {
    local directory=$1 file=$2
    shift 2
    (
        compile="$(make_value "$directory" CXXCOMPILE) -fpch-instantiate-templates -x c++-header"
        cd "$directory" && eval "$compile" "$@" '"$top/test/lib/standard.h"' -o '"$file"'
    )
}

# make_value DIRECTORY VARIABLE: prints what it is in the directory's Makefile
make_value() {
    make -s -C "$1" Makefile >&2 # A Makefile that is out of date would print its renewal.
    make -s -C "$1" print-value --eval "print-value: ; \$(info \$($2)) @:"
}
