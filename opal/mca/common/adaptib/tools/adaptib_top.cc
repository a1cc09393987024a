// SPDX-License-Identifier: BSD-3-Clause
// The program adaptib_top; tools/top.h says what it does.
// May touch: tools/.
#include "tools/top.h"

int main(int argc, char** argv) { return adaptib::run_top(argc, argv, stdout, stderr); }
