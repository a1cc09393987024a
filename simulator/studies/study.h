// SPDX-License-Identifier: BSD-3-Clause
// Study: the frame of a program that repeats a published measurement in the simulator.
//
// Purpose: options, repetitions with seeds, the table of our and the paper's figures, the bounds
// that the study's header states, the data of its picture. A study is a main() that makes a Study,
// adds rows and panels, and returns finish(). It writes the picture as JSON (--output);
// simulator/studies/run draws it.
// Threads: one.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adaptib::study {

// The range that a figure has to be in. Both ends are finite: a bound with one end holds for code
// that is far off, too.
struct Bound {
    double low;
    double high;
};

// Returns the range from `share` (0.02: 2 %) of the figure below it to as much above it.
inline Bound around(double figure, double share) {
    const double margin = share * std::abs(figure);
    return {figure - margin, figure + margin};
}

struct Spread {
    double median = 0;
    double low = 0;
    double high = 0;
};

struct Panel {
    struct Series {
        std::string name;
        std::vector<std::pair<double, double>> points; // bars: the first is an index into labels
    };

    std::string title;
    std::string unit;
    bool log = true;                 // curves: logarithmic values
    bool bytes = true;               // curves: the horizontal axis shows sizes in bytes
    std::vector<std::string> labels; // bars: labels of the groups; empty for curves
    std::vector<Series> series;

    // The series of that name; added if missing.
    Series& operator[](const std::string& name);
};

class Study {
public:
    // `machine`: the model in use (simulator/network/machine.h), or other text for the picture's
    // head.
    Study(std::string name, std::string title, std::string machine);

    // Adds an option of the study; --check, --quick, --seed and --output exist already.
    void option(const char* name, std::string& value, const char* help);
    void option(const char* name, std::uint64_t& value, const char* help);
    // Ends the program if an option is wrong, or help was asked for.
    void parse(int argc, char** argv);
    bool quick() const { return quick_; }
    std::uint64_t seed() const { return seed_; }
    void set_machine(std::string machine) { machine_ = std::move(machine); }

    // Calls `run` with `times` seeds, from --seed on.
    Spread repeat(int times, const std::function<double(std::uint64_t seed)>& run) const;

    // Adds a line to the table, with its bound. Without a paper's figure it shows ours alone.
    // REQUIRES: low <= high in the bound, and both finite.
    void row(const std::string& what, const std::string& unit, const Spread& ours,
             std::optional<double> paper = {}, std::optional<Bound> bound = {});
    void row(const std::string& what, const std::string& unit, double ours,
             std::optional<double> paper = {}, std::optional<Bound> bound = {}) {
        row(what, unit, Spread{ours, ours, ours}, paper, bound);
    }
    // Adds a sentence below the table, which explains a difference.
    void note(const std::string& text) { notes_.push_back(text); }
    void panel(Panel panel) { panels_.push_back(std::move(panel)); }

    // Prints the table and the key figure as the last line, writes the picture, and returns the
    // exit status.
    int finish(const std::string& key_figure) const;
    // Reports that something could not be measured, and ends the program with status 2.
    [[noreturn]] void fail(const std::string& text) const;

private:
    struct Option {
        std::string name;
        std::string help;
        std::function<bool(const std::string&)> set;
    };
    struct Row {
        std::string what;
        std::string unit;
        Spread ours;
        std::optional<double> paper;
        std::optional<Bound> bound;

        bool holds() const {
            return !bound || (ours.median >= bound->low && ours.median <= bound->high);
        }
    };
    [[noreturn]] void usage(int status) const;
    void print_table() const;
    std::string picture() const;

    std::string name_;
    std::string title_;
    std::string machine_;
    bool check_ = false;
    bool quick_ = false;
    std::uint64_t seed_ = 1;
    std::string output_;
    std::vector<Option> options_;
    std::vector<Row> rows_;
    std::vector<std::string> notes_;
    std::vector<Panel> panels_;
};

// Text of four digits, without an exponent.
std::string number_text(double value);

} // namespace adaptib::study
