// SPDX-License-Identifier: BSD-3-Clause
// The program adaptib_rails; tools/rails.h says what it does.
// May touch: tools/.
#include "tools/rails.h"

int main(int argc, char** argv) { return adaptib::run_rails(argc, argv, stdout, stderr); }
