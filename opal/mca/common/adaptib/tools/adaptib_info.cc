// SPDX-License-Identifier: BSD-3-Clause
// The program adaptib_info; tools/info.h says what it does.
// May touch: tools/.
#include "tools/info.h"

int main(int argc, char** argv) {
    return adaptib::run_info(argc, argv, adaptib::info_settings(), stdout, stderr);
}
