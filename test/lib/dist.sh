# SPDX-License-Identifier: BSD-3-Clause
#
# The archive of a release (make dist), and what is made of it. For test/run dist.

dist_dir=$build_root/dist

# dist_archive: makes the archive in a build directory of its own, and compares it with the sources:
# only what belongs to services that host the sources is left out
dist_archive() {
    local archive left=$dist_dir/left
    rm -rf "$dist_dir" && mkdir -p "$dist_dir/make" || return 1
    [ -f "$top/configure" ] || "$top/autogen.pl" || return 1
    # shellcheck disable=SC2086
    (cd "$dist_dir/make" && "$top/configure" ${ADAPTIB_CONFIGURE_OPTIONS:-} && make dist) || return 1
    archive=$(dist_file) && tar -C "$dist_dir" -xf "$archive" || return 1
    copy_sources "$dist_dir/sources" || return 1
    diff -rq "$dist_dir/sources" "$dist_dir/$(basename "$archive" .tar.gz)" >"$left"
    ! grep -v -e '^Only in [^ ]*/adaptib-' -e ': \.git' "$left"
}

# dist_file: prints the path of the archive
dist_file() { ls "$dist_dir"/make/adaptib-*.tar.gz; }

# dist_check: what the archive holds is enough to configure, build, install and remove everything,
# from a directory that cannot be written; nothing is left. `make check` there has two short tests, and
# nothing is optimized, so that this ends soon: test/run unit runs all unit tests.
dist_check() {
    local tests="adaptib_unit_match adaptib_unit_stats"
    [ -f "$dist_dir/make/Makefile" ] || dist_archive || return 1
    make -C "$dist_dir/make" -j "$jobs" distcheck TESTS="$tests" check_PROGRAMS="$tests" \
        DISTCHECK_CONFIGURE_FLAGS="CFLAGS=-O0 CXXFLAGS=-O0 ${ADAPTIB_CONFIGURE_OPTIONS:-}"
}

# dist_rpm: rpmlint and rpmbuild read the spec, as far as they can on Debian: without Open MPI's
# package for RPM it is not built
dist_rpm() {
    local spec=$top/packaging/rpm/adaptib.spec
    [ -f "$dist_dir/make/Makefile" ] || dist_archive || return 1
    rpmlint "$spec" || return 1
    [ "$(rpmspec -q --qf '%{name}\n' "$spec" | sort | xargs)" = \
        "adaptib adaptib-doc adaptib-openmpi adaptib-tools" ] || return 1
    rpmbuild -tp --nodeps --define "_topdir $dist_dir/rpm" "$(dist_file)" &&
        [ -f "$(find "$dist_dir/rpm/BUILD" -name configure | head -n 1)" ]
}
