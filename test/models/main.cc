// SPDX-License-Identifier: BSD-3-Clause
// Runs the models of a program (model.h). Exit status 0: all were explored whole, and none failed;
// 1: one failed, and the steps that led there are printed; 2: the time was too short for one.
//
//   PROGRAM [--long] [--seconds N] [--preemptions N] [--stale N] [MODEL...]
//
// --long: everything is done twice as often.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "model.h"

namespace adaptib::model {
namespace {

bool g_long = false;

int run(const Model& model) {
    const auto begin = std::chrono::steady_clock::now();
    const Explored explored = explore(model.bounds, model.program);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%-24s %s: %llu executions, up to %llu decisions, %.1f s\n", model.name.c_str(),
                !explored.failure.empty() ? "FAILED"
                : explored.whole          ? "whole"
                                          : "not whole",
                static_cast<unsigned long long>(explored.executions),
                static_cast<unsigned long long>(explored.decisions), took.count());
    if (!explored.failure.empty()) {
        std::printf("  %s", explored.failure.c_str());
        return 1;
    }
    return explored.whole ? 0 : 2;
}

} // namespace

int scaled(int few) { return g_long ? 2 * few : few; }

} // namespace adaptib::model

int main(int count, char** arguments) {
    using namespace adaptib::model;
    std::vector<std::string> names;
    double seconds = 0;
    int preemptions = -1;
    int stale = -1;
    for (int i = 1; i < count; ++i) {
        const std::string argument = arguments[i];
        const bool more = i + 1 < count;
        if (argument == "--long") {
            g_long = true;
        } else if (argument == "--seconds" && more) {
            seconds = std::atof(arguments[++i]);
        } else if (argument == "--preemptions" && more) {
            preemptions = std::atoi(arguments[++i]);
        } else if (argument == "--stale" && more) {
            stale = std::atoi(arguments[++i]);
        } else {
            names.push_back(argument);
        }
    }
    int status = 0;
    for (Model model : models()) {
        bool wanted = names.empty();
        for (const std::string& name : names) {
            wanted = wanted || name == model.name;
        }
        if (!wanted) {
            continue;
        }
        model.bounds.seconds = seconds > 0 ? seconds : model.bounds.seconds;
        model.bounds.preemptions = preemptions >= 0 ? preemptions : model.bounds.preemptions;
        model.bounds.stale_loads = stale >= 0 ? stale : model.bounds.stale_loads;
        const int its = run(model);
        std::fflush(stdout);
        if (its == 1) {
            return 1;
        }
        status = status == 0 ? its : status;
    }
    return status;
}
