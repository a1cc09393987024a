#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Several hosts on one host: an agent for mpirun's remote starts (plm_rsh_agent). The command runs
# here, in a UTS namespace of its own with the host name asked for, so that Open MPI takes its
# processes for those of another host. Needs root. Usage: hosts.sh HOST COMMAND...

host=$1
shift
command=$*
export host command
exec unshare --uts sh -c 'hostname "$host" && exec sh -c "$command"'
