# SPDX-License-Identifier: BSD-3-Clause
#
# Debian packages of adaptib (debian/): built from a copy of the sources, checked, installed, tried
# and removed again. For test/run packages.

deb_dir=$build_root/packages

# In a process of its own, since it leaves a directory behind that is removed.
deb_build() (
    local options=${ADAPTIB_CONFIGURE_OPTIONS:-}
    rm -rf "$deb_dir" && copy_sources "$deb_dir/adaptib" || return 1
    cd "$deb_dir/adaptib" || return 1
    [[ $options != *--with-ompi-source=* ]] ||
        export ADAPTIB_OMPI_SOURCE=${options#*--with-ompi-source=}
    DEB_BUILD_OPTIONS="parallel=$jobs nocheck" dpkg-buildpackage -b -us -uc || return 1
    rm -rf "$deb_dir/adaptib"
    ls -l "$deb_dir"/*.deb
)

# Errors and warnings fail the test. What is left out: a first version closes no bug, and is not in
# the archive.
deb_lint() {
    lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs \
        --allow-root "$deb_dir"/*.changes || return 1
}

# files_of_packages: lists what the system has of adaptib
files_of_packages() {
    find /usr /etc /var/lib/dpkg/info /opt \( -name '*adaptib*' -o -name pmix-mca-params-override.conf \) \
        2>/dev/null | sort
}

# Installs the packages, runs programs over them, and removes them: nothing is left.
deb_try() {
    local before program=$deb_dir/pingpong status=0 packages
    [ "$(id -u)" = 0 ] || { echo "needs root"; return 77; }
    before=$(files_of_packages)
    mapfile -t packages < <(ls "$deb_dir"/*.deb | grep -v dbgsym)
    dpkg -i "${packages[@]}" || { dpkg --purge openmpi-adaptib adaptib-tools adaptib-doc; return 1; }
    deb_use "$program" || status=1
    dpkg --purge openmpi-adaptib adaptib-tools adaptib-doc || return 1
    [ "$(files_of_packages)" = "$before" ] || { echo "left:"; files_of_packages; return 1; }
    return $status
}

# deb_use PROGRAM: as a user would, without a setting of ours in the environment
deb_use() {
    local run
    run=(env -u PMIX_MCA_mca_base_component_path -u OMPI_MCA_mca_base_component_path
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120
        mpirun --oversubscribe -np 2 --mca opal_common_adaptib_verbose 1)
    mpicc -std=gnu11 -O2 -pthread -o "$1" "$top/test/mpi/pingpong.c" || return 1
    "${run[@]}" --mca mtl adaptib "$1" 65536 2>&1 | tee "$deb_dir/out" || return 1
    grep -q '^adaptib.*within the host' "$deb_dir/out" && grep -q '^pingpong: ok' "$deb_dir/out" ||
        { echo "the MTL was not used"; return 1; }
    ! grep 'bad prefix' "$deb_dir/out" || { echo "PMIx complains"; return 1; }
    env -u OMPI_MCA_mca_base_component_path ompi_info --parsable | grep -q '^mca:mtl:adaptib:version:' ||
        { echo "ompi_info does not find the MTL"; return 1; }
    "${run[@]}" --mca pml ob1 --mca btl adaptib,self "$1" 65536 || return 1
    adaptib_info && adaptib_report --help && adaptib_top --help && adaptib_advise --help &&
        adaptib_rails --help && adaptib_selftest --help && dpkg -L adaptib-tools | grep -q adaptib_advise.1.gz &&
        [ -e /usr/share/doc/adaptib-doc/docs/install.md ]
}
