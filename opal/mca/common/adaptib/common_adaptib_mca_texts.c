// SPDX-License-Identifier: BSD-3-Clause
/*
 * The texts around messages to the user (common_adaptib_mca_parts.h). They are in the library, and
 * not in files that Open MPI finds: since 6.0 it looks for no files.
 */
#include "opal_config.h"

#include <stddef.h>
#include <string.h>

#include "common_adaptib_mca_parts.h"

static const opal_common_adaptib_mca_text_t texts[] = {
    {
        "parameter refused",
        "adaptib does not start because one of its parameters has a value that is\n"
        "not allowed.\n",
        "  All parameters:  ompi_info --param mtl adaptib --level 9\n"
        "\n"
        "The job goes on over another transport, or ends if adaptib was selected by\n"
        "name.\n",
    },
    {
        "wrong version",
        "adaptib does not work with this Open MPI.\n",
        "\n"
        "Rebuild adaptib against the Open MPI that runs the job (its oldest\n"
        "supported release is 4.1), or start the job with the Open MPI that adaptib\n"
        "was built for.\n",
    },
    {
        "no address",
        "adaptib could not publish its address for the other processes.\n",
        "\n"
        "Start the program with mpirun or another launcher that offers PMIx.\n",
    },
    {"notice", "Notice from adaptib; the job goes on.\n", ""},
    {"failure", "adaptib reports an error.\n", ""},
};

const opal_common_adaptib_mca_text_t *opal_common_adaptib_mca_text(const char *topic)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i) {
        if (0 == strcmp(texts[i].topic, topic)) {
            return &texts[i];
        }
    }
    return NULL;
}
