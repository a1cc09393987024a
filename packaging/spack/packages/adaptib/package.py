# SPDX-License-Identifier: BSD-3-Clause
"""Recipe for Spack:

    spack repo add packaging/spack
    spack dev-build adaptib@main      # in a copy of the sources
"""

from spack.package import *


class Adaptib(AutotoolsPackage):
    """Transport of Open MPI for InfiniBand and RoCE: an MTL and a BTL that use all rails and
    paths, and make connections anew over the others when a path fails."""

    homepage = "https://adaptib.invalid"

    license("BSD-3-Clause")

    version("main")
    version("0.1.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("autoconf@2.71:", type="build")
    depends_on("automake@1.16:", type="build")
    depends_on("libtool", type="build")
    depends_on("perl", type="build")
    depends_on("pkgconfig", type="build")
    # The components read structures of Open MPI that keep their shape within a series.
    depends_on("openmpi@4.1,5.0", type=("build", "link", "run"))
    depends_on("hwloc")
    depends_on("pmix")
    depends_on("rdma-core@35:")
    depends_on("python@3.9:", type="run")  # adaptib_report

    conflicts("%gcc@:11", msg="adaptib is written in C++20")
    conflicts("platform=darwin", msg="adaptib needs Linux")

    @property
    def components(self):
        return join_path(self.prefix.lib, "openmpi")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.pl")()

    def configure_args(self):
        return [
            f"--with-ompi={self.spec['openmpi'].prefix}",
            f"--with-component-dir={self.components}",
        ]

    def setup_run_environment(self, env):
        """Open MPI finds the components beside its own."""
        own = join_path(self.spec["openmpi"].prefix.lib, "openmpi")
        env.set("OMPI_MCA_mca_base_component_path", f"{own}:{self.components}")
