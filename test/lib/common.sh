# SPDX-License-Identifier: BSD-3-Clause
#
# Functions that examples/run and test/run share. Sourced by bash, with `set -u`.
#
# Sets: top (source tree), build_root, logs, jobs. ADAPTIB_BUILD_DIR replaces build/ of the tree.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build_root=${ADAPTIB_BUILD_DIR:-$top/build}
mkdir -p "$build_root/logs" || exit 1
build_root=$(cd "$build_root" && pwd)
logs=$build_root/logs
jobs=$(nproc 2>/dev/null || echo 2)
export LC_ALL=C

say() { printf '%s\n' "$*"; }

# die TEXT...: prints an error and exits
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# copy_sources DIRECTORY: copies the sources there that differ, committed or not. Such a file is newer
# than what was made of it, whenever it was edited. Without git or its history, as in a chroot or an
# unpacked archive, all files are sources but those in build/.
copy_sources() {
    local to file
    mkdir -p "$1" && to=$(cd "$1" && pwd) || return 1
    (
        cd "$top" || exit 1
        if git rev-parse --git-dir >/dev/null 2>&1; then
            git ls-files -co --exclude-standard -z
        else
            find . -name build -prune -o ! -type d -printf '%P\0'
        fi | while IFS= read -r -d '' file; do
            [ ! -f "$file" ] || cmp -s "$file" "$to/$file" || cp --parents "$file" "$to/" || exit 1
        done
    )
}

. "$top/test/lib/packages.sh"
. "$top/test/lib/build.sh"
. "$top/test/lib/mpi.sh"
. "$top/test/lib/aarch64.sh"
