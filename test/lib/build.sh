# SPDX-License-Identifier: BSD-3-Clause
#
# Builds of adaptib, each variant in a directory of its own below build_root:
#   release   components (installed to its components/), unit tests, MPI programs
#   asan      unit tests under AddressSanitizer and UBSan: clang, which compiles these in half of
#             gcc's time
#   tsan      unit tests under ThreadSanitizer
#   fuzz      fuzz targets: clang, libFuzzer, AddressSanitizer and UBSan

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
    if [ "$variant" = release ]; then
        make -j "$jobs" && make install || return 1
    else
        make -j "$jobs" -C opal/mca/common/adaptib libadaptib_core.la || return 1
    fi
    for target in "$@"; do
        make -j "$jobs" -C test "$target" || return 1
    done
}
