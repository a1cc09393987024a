# SPDX-License-Identifier: BSD-3-Clause
#
# Debian packages: the packages that each part needs, and their installation.

# package           needed by (all = everything that builds)
packages_table='
autoconf            all
automake            all
libtool             all
m4                  all
make                all
g++                 all
pkg-config          all
libopenmpi-dev      all
openmpi-bin         all
libpmix-dev         all
libhwloc-dev        all
libibverbs-dev      all
librdmacm-dev       all
libgtest-dev        all
xz-utils            unit asan tsan routes vm
zstd                vm
python3-minimal     all
python3             bench study packages pages mpi mpi_fuzz hca suites vm mutation coverage
python3-clang       mutation
llvm                coverage
valgrind            instructions watched
mpich               mpich
libmpich-dev        mpich
clang-format        check
clang               asan tsan fuzz mpi_tsan mutation coverage
libclang-rt-14-dev  asan tsan fuzz mpi_tsan coverage
lammps              example clients hca verbs vm
lammps-examples     example clients hca verbs vm
netpipe-openmpi     clients verbs vm
scalapack-mpi-test  clients hca
hpcc                clients
python3-mpi4py      clients
python3-numpy       clients
ibsim-utils         routes
opensm              routes
infiniband-diags    routes
qemu-system-x86     vm
busybox-static      vm
cpio                vm
procps              vm
kmod                vm
rdma-core           vm
ibverbs-providers   verbs vm
ibverbs-utils       hca suites vm
rdmacm-utils        vm
perftest            hca suites vm
python3-pyverbs     hca suites
ucx-utils           hca suites
iproute2            vm
debootstrap         chroot
chromium            pages
rpm                 dist
rpmlint             dist
mkdocs              pages
libjs-bootstrap     pages
libjs-jquery        pages
debhelper           packages
build-essential     packages
dpkg-dev            packages
fakeroot            packages
lintian             packages
clang-tidy          tidy
g++-aarch64-linux-gnu aarch64
qemu-user-static    aarch64
'

package_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# ensure_packages PART...: installs packages that the parts need and the system lacks. Does nothing
# where there is no dpkg: configure names the packages that it misses.
ensure_packages() {
    command -v dpkg-query >/dev/null 2>&1 || return 0
    local wanted=" all $* " missing=() package parts part
    while read -r package parts; do
        for part in $parts; do
            if [[ $wanted == *" $part "* ]]; then
                package_installed "$package" || missing+=("$package")
                break
            fi
        done
    done <<<"${packages_table#$'\n'}"
    [ ${#missing[@]} -gt 0 ] || return 0

    local root=()
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            die "these packages are missing, and only root may install them. Run as root:
    apt-get update && apt-get install ${missing[*]}"
        fi
        root=(sudo)
    fi
    say "installing ${missing[*]}"
    local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends)
    if ! { "${root[@]}" apt-get update && "${root[@]}" "${install[@]}" "${missing[@]}"; } \
        >"$logs/apt.log" 2>&1; then
        tail -n 20 "$logs/apt.log" >&2
        die "apt-get could not install ${missing[*]}; all its output is in $logs/apt.log"
    fi
}
