# SPDX-License-Identifier: BSD-3-Clause
#
# Builds of adaptib, each variant in a directory of its own below build_root:
#   release   components (installed to its components/), unit tests, MPI programs
#   asan      unit tests under AddressSanitizer and UBSan: clang, which compiles these in half of
#             gcc's time
#   tsan      unit tests under ThreadSanitizer
#   fuzz      fuzz targets: clang, libFuzzer, AddressSanitizer and UBSan
#
# Half of the time of a build goes into standard headers and GoogleTest's. The builds with clang
# precompile these (standard.h); gcc 12, with precompiled headers, warns falsely of overflows in
# std::string. The release build thus still finds headers that a source uses and does not include.
# Nothing is precompiled for ccache, which saves more. The Makefiles do not know about this: the
# flags are on make's command line, and a make by hand does without.

# Prints configure's arguments, one per line. -O1 compiles faster, and the sanitizers' reports show
# more of the calls; -g1 has the lines that reports name, and compiles in 2/3 of the time of -g.
build_options() {
    local flags="-g1 -O1"
    case $1 in
        release) printf '%s\n' --enable-werror CFLAGS="-g1 -O2" CXXFLAGS="-g1 -O2" ;;
        asan)
            printf '%s\n' --enable-werror --enable-asan CC=clang CXX=clang++ \
                CFLAGS="$flags" CXXFLAGS="$flags"
            ;;
        tsan) printf '%s\n' --enable-werror --enable-tsan CFLAGS="$flags" CXXFLAGS="$flags" ;;
        fuzz)
            printf '%s\n' --enable-asan --enable-fuzzing CC=clang CXX=clang++ \
                CFLAGS="$flags" CXXFLAGS="$flags"
            ;;
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
        printf 'ok %4d s\n' $((SECONDS - start))
    else
        printf 'FAILED %4d s\n' $((SECONDS - start))
        tail -n 30 "$log"
        say "all of it is in $log"
        return 1
    fi
}

build_steps() {
    local variant=$1 dir=$build_root/$1 target options
    shift
    # make itself repeats autogen and configure when their sources have changed.
    if [ ! -f "$top/configure" ] || [ ! -f "$top/test/Makefile.in" ]; then
        "$top/autogen.pl" || return 1
    fi
    mkdir -p "$dir" && cd "$dir" || return 1
    if [ ! -f Makefile ]; then
        mapfile -t options < <(build_options "$variant")
        # shellcheck disable=SC2086
        "$top/configure" --with-component-dir="$dir/components" "${options[@]}" \
            ${ADAPTIB_CONFIGURE_OPTIONS:-} || return 1
    fi
    precompile || return 1
    if [ "$variant" = release ]; then
        make -j "$jobs" && make install || return 1
    else
        make -j "$jobs" -C opal/mca/common/adaptib "${precompiled[@]}" libadaptib_core.la || return 1
    fi
    for target in "$@"; do
        make -j "$jobs" -C test "${precompiled[@]}" "$target" || return 1
    done
}

# precompile: compiles standard.h for the build in this directory if that uses clang, and if clang
# or the flags have changed: once for the core and once for the tests; clang takes the one that
# fits. Sets precompiled to the arguments with which make uses it.
precompile() {
    local compiler key header=$PWD/precompiled/standard.h
    precompiled=()
    compiler=$(make_value test CXX)
    [[ $(basename "$(readlink -f "$(command -v "${compiler%% *}")")") == clang* ]] || return 0
    key=$($compiler --version && make_value test CXXCOMPILE && cat "$top/test/lib/standard.h")
    if [ "$(cat precompiled/key 2>/dev/null)" != "$key" ]; then
        rm -rf precompiled && mkdir -p "$header.gch" && cp "$top/test/lib/standard.h" "$header" &&
            precompile_for opal/mca/common/adaptib "$header.gch/core" -fPIC -DPIC &&
            precompile_for test "$header.gch/test" &&
            printf '%s\n' "$key" >precompiled/key || return 1
    fi
    precompiled=(CXXFLAGS="$(make_value test CXXFLAGS) -include $header")
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
