// SPDX-License-Identifier: BSD-3-Clause
// The frame of studies (study.h).
#include "simulator/studies/study.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace adaptib::study {

namespace {

bool read_number(const std::string& text, std::uint64_t& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc{} && end == text.data() + text.size();
}

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
        }
        out += c;
    }
    return out + '"';
}

// Lists all items in brackets, each as the text that `each` returns.
template <typename List, typename Each> std::string json_list(const List& list, Each each) {
    std::string out = "[";
    for (const auto& item : list) {
        out += (out.size() > 1 ? ", " : "") + each(item);
    }
    return out + "]";
}

std::string json_number(double value) {
    std::ostringstream out;
    out.precision(12);
    out << value;
    return out.str();
}

std::string json_of(const Panel& panel) {
    const auto point = [](const std::pair<double, double>& p) {
        return "[" + json_number(p.first) + ", " + json_number(p.second) + "]";
    };
    const auto series = [&](const Panel::Series& s) {
        return "{\"name\": " + quoted(s.name) + ", \"points\": " + json_list(s.points, point) + "}";
    };
    return "{\"title\": " + quoted(panel.title) + ", \"unit\": " + quoted(panel.unit) +
           ", \"log\": " + (panel.log ? "true" : "false") +
           ", \"bytes\": " + (panel.bytes ? "true" : "false") +
           ", \"labels\": " + json_list(panel.labels, quoted) +
           ",\n  \"series\": " + json_list(panel.series, series) + "}";
}

} // namespace

std::string number_text(double value) {
    const double size = std::abs(value);
    const int digits = size > 0 ? 3 - static_cast<int>(std::floor(std::log10(size))) : 0;
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", std::clamp(digits, 0, 4), value);
    return text;
}

Panel::Series& Panel::operator[](const std::string& name) {
    for (Series& one : series) {
        if (one.name == name) {
            return one;
        }
    }
    return series.emplace_back(Series{name, {}});
}

Study::Study(std::string name, std::string title, std::string machine)
    : name_(std::move(name)), title_(std::move(title)), machine_(std::move(machine)) {
    option("--seed", seed_, "the first of the repetitions' seeds");
    option("--output", output_, "where to write the picture");
}

void Study::option(const char* name, std::string& value, const char* help) {
    options_.push_back({name, value.empty() ? help : std::string(help) + " [" + value + "]",
                        [&value](const auto& text) {
                            value = text;
                            return true;
                        }});
}

void Study::option(const char* name, std::uint64_t& value, const char* help) {
    options_.push_back({name, std::string(help) + " [" + std::to_string(value) + "]",
                        [&value](const auto& text) { return read_number(text, value); }});
}

void Study::usage(int status) const {
    std::FILE* const to = status == 0 ? stdout : stderr;
    std::fprintf(
        to, "%s: %s\n\n  %-12s exit status 1 if a bound does not hold\n  %-12s under a minute\n",
        name_.c_str(), title_.c_str(), "--check", "--quick");
    for (const Option& each : options_) {
        std::fprintf(to, "  %-12s %s\n", each.name.c_str(), each.help.c_str());
    }
    std::exit(status);
}

void Study::parse(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (argument == "--check") {
            check_ = true;
        } else if (argument == "--quick") {
            quick_ = true;
        } else if (argument == "--help" || argument == "-h") {
            usage(0);
        } else {
            const auto found =
                std::find_if(options_.begin(), options_.end(),
                             [&](const Option& each) { return each.name == argument; });
            if (found == options_.end() || i + 1 == argc || !found->set(argv[++i])) {
                std::fprintf(stderr, "%s: \"%s\" is not an option, or lacks a value that fits\n",
                             name_.c_str(), argument.c_str());
                usage(2);
            }
        }
    }
}

Spread Study::repeat(int times, const std::function<double(std::uint64_t)>& run) const {
    std::vector<double> values;
    for (int i = 0; i < times; ++i) {
        values.push_back(run(seed_ + static_cast<std::uint64_t>(i)));
    }
    std::sort(values.begin(), values.end());
    return {values[values.size() / 2], values.front(), values.back()};
}

void Study::row(const std::string& what, const std::string& unit, const Spread& ours,
                std::optional<double> paper, std::optional<Bound> bound) {
    if (bound &&
        !(std::isfinite(bound->low) && std::isfinite(bound->high) && bound->low <= bound->high)) {
        fail("the bound of \"" + what + "\" is no range");
    }
    rows_.push_back({what, unit, ours, paper, bound});
}

void Study::print_table() const {
    std::printf("%s (%s)\n\n%-46s %-8s %10s %18s %10s %11s  bound\n", title_.c_str(),
                machine_.c_str(), "", "unit", "ours", "of repetitions", "paper", "difference");
    for (const Row& row : rows_) {
        std::string spread;
        if (row.ours.low < row.ours.high) {
            spread = number_text(row.ours.low) + ".." + number_text(row.ours.high);
        }
        std::string paper = "-";
        std::string difference;
        if (row.paper) {
            paper = number_text(*row.paper);
            if (*row.paper != 0) {
                char text[32];
                std::snprintf(text, sizeof text, "%+.1f %%",
                              100 * (row.ours.median / *row.paper - 1));
                difference = text;
            }
        }
        std::string bound;
        if (row.bound) {
            bound = std::string(row.holds() ? "holds: from " : "BROKEN: from ") +
                    number_text(row.bound->low) + " to " + number_text(row.bound->high);
        }
        std::printf("%-46s %-8s %10s %18s %10s %11s  %s\n", row.what.c_str(), row.unit.c_str(),
                    number_text(row.ours.median).c_str(), spread.c_str(), paper.c_str(),
                    difference.c_str(), bound.c_str());
    }
    for (const std::string& text : notes_) {
        std::printf("\n%s\n", text.c_str());
    }
}

std::string Study::picture() const {
    return "{\"title\": " + quoted(title_) + ",\n \"machine\": " + quoted(machine_) +
           ",\n \"panels\": " + json_list(panels_, json_of) + "}\n";
}

int Study::finish(const std::string& key_figure) const {
    print_table();
    if (!output_.empty()) {
        std::ofstream file(output_);
        file << picture();
        file.close();
        if (!file) {
            fail("cannot write " + output_);
        }
    }
    const auto broken =
        std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return !row.holds(); });
    std::printf("\n%s\n", key_figure.c_str());
    return check_ && broken != 0 ? 1 : 0;
}

void Study::fail(const std::string& text) const {
    std::fprintf(stderr, "%s: %s\n", name_.c_str(), text.c_str());
    std::exit(2);
}

} // namespace adaptib::study
