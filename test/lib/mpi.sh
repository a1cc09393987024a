# SPDX-License-Identifier: BSD-3-Clause
#
# Running MPI programs with the components of a build.

mpi_build=$build_root/release
# pml/cm passes all two-sided traffic to the MTL.
adaptib_mca=(--mca pml cm --mca mtl adaptib)
vader_mca=(--mca pml ob1 --mca btl "vader,self")

# mpi_environment: exports the variables that every run needs
mpi_environment() {
    local pkglibdir
    pkglibdir=$(ompi_info --path pkglibdir --parsable | sed -n 's/^path:pkglibdir://p')
    [ -n "$pkglibdir" ] || die "ompi_info does not name Open MPI's component directory"
    export OMPI_MCA_mca_base_component_path=$pkglibdir:$mpi_build/components
    if [ "$(id -u)" = 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
    # More ranks than processors: waiting ranks yield, and no rank is bound.
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    export OMPI_MCA_hwloc_base_binding_policy=none
    [ "$(ompi_major)" -lt 5 ] || mpi_environment_of_5
}

ompi_major() { ompi_info --version | sed -n 's/^Open MPI v\([0-9]*\).*/\1/p'; }

# mpirun passes the component path to PMIx, too, which would complain about each file there that is
# not one of its components. Its launcher, PRRTE, has a variable of its own about binding.
mpi_environment_of_5() {
    local libdir
    libdir=$(pkg-config --variable=libdir pmix) || die "pkg-config does not find PMIx, which Open MPI 5 uses"
    export PMIX_MCA_mca_base_component_path=$libdir/pmix
    if [ "$(ompi_major)" -ge 6 ]; then
        export PRTE_MCA_bindto=none
    else
        export PRTE_MCA_hwloc_default_binding_policy=none
    fi
}

# ompi_has FRAMEWORK COMPONENT: returns 0 if this Open MPI has the component
ompi_has() { ompi_info --parsable | grep -q "^mca:$1:$2:version:"; }

# ompi_look: finds out what Open MPI has of what some tests need (ompi_lacks)
ompi_look() {
    ompi_pt2pt=yes ompi_survives=yes
    ompi_has osc pt2pt || ompi_pt2pt=no # as of Open MPI 5
    ompi_info --parsable | grep -q '^options:ft_mpi_support:yes' || ompi_survives=no
}

# ompi_lacks ARGUMENTS: sets lacking to what these arguments of mpirun need and Open MPI lacks, or to
# nothing. REQUIRES: ompi_look
ompi_lacks() {
    lacking=
    [[ $1 != *"osc pt2pt"* ]] || [ "$ompi_pt2pt" = yes ] || lacking=osc/pt2pt
    [[ $1 != *"--with-ft "* ]] || [ "$ompi_survives" = yes ] || lacking="survival of failed processes"
}

# Two hosts between which the ranks alternate; if empty, all ranks run on this host.
mpi_hosts=

# run_mpi SECONDS RANKS [mpirun argument...] PROGRAM...: returns 124 or 137 after more than SECONDS
run_mpi() {
    local seconds=$1 ranks=$2 where=()
    shift 2
    [ -z "$mpi_hosts" ] || where=(--map-by node --host "${mpi_hosts%,*}:$ranks,${mpi_hosts#*,}:$ranks")
    timeout -k 10 "$seconds" mpirun --oversubscribe "${where[@]}" -np "$ranks" "$@"
}
