#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Several hosts on one host: an agent for mpirun's remote starts (plm_rsh_agent). The command runs
# here, in a UTS namespace of its own with the requested host name, so that Open MPI takes its
# processes for those of another host. Needs root. Usage: hosts.sh HOST COMMAND...
#
# HOSTS_APART=1: also uses a process namespace, so that processes of two hosts share no memory.
# HOSTS_RAILS="HOST=DEVICE[,DEVICE...] ...": the RDMA devices of the processes of each host.

host=$1
shift
command=$*
for rails in $HOSTS_RAILS; do
    [ "${rails%%=*}" != "$host" ] || export OMPI_MCA_opal_common_adaptib_if_include="${rails#*=}"
done
export host command
[ -z "$HOSTS_APART" ] || apart="--pid --fork --kill-child --mount-proc"
# shellcheck disable=SC2086
exec unshare --uts $apart sh -c 'hostname "$host" && exec sh -c "$command"'
