// SPDX-License-Identifier: BSD-3-Clause
// Programs as text, and their parameters (simulator/torture/program.h; random_program.cc makes
// them).
#include "simulator/torture/program.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/process_name.h"
#include "simulator/torture/payload.h"

namespace adaptib::torture {

namespace {

constexpr std::array<std::string_view, 17> kVerbs{
    "send", "ssend", "receive", "probe", "claim",   "cancel",  "wait",   "compute", "active",
    "put",  "get",   "add",     "swap",  "release", "promote", "demote", "end"};

// Lists of settings, by the first word of their lines.
constexpr std::array<std::pair<std::string_view, std::vector<Setting> Program::*>, 3> kLists{
    {{"parameter", &Program::settings}, {"world", &Program::world}, {"fault", &Program::faults}}};

// Visits all fields of an operation but rank and verb, with their names in the text.
template <class Operation, class Visit> void for_each_field(Operation& operation, Visit&& visit) {
    visit("id", operation.id);
    visit("peer", operation.peer);
    visit("context", operation.context);
    visit("tag", operation.tag);
    visit("bytes", operation.bytes);
    visit("offset", operation.offset);
    visit("amount", operation.amount);
    visit("element", operation.element);
    visit("stride", operation.stride);
    visit("at_once", operation.at_once);
    visit("own_key", operation.own_key);
}

template <class Number> bool parse(std::string_view text, Number& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc{} && end == text.data() + text.size();
}

bool set_field(Operation& operation, std::string_view name, std::string_view value) {
    bool set = false;
    for_each_field(operation, [&](std::string_view field, auto& place) {
        if (field == name) {
            set = parse(value, place);
        }
    });
    return set;
}

bool read_operation(const std::string& first, std::istringstream& words, Program& program) {
    Operation operation;
    std::string word;
    words >> word;
    const auto verb = std::find(kVerbs.begin(), kVerbs.end(), word);
    if (verb == kVerbs.end() || !parse(first, operation.rank) || operation.rank >= program.ranks) {
        return false;
    }
    operation.verb = static_cast<Verb>(verb - kVerbs.begin());
    while (words >> word) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos ||
            !set_field(operation, word.substr(0, equals), word.substr(equals + 1))) {
            return false;
        }
    }
    const bool any = operation.verb == Verb::receive || operation.verb == Verb::probe ||
                     operation.verb == Verb::claim;
    if (std::max(operation.bytes, operation.offset) > kLongestPayload / 2 ||
        operation.peer < (any ? Envelope::kAnySource : 0) ||
        operation.peer >= static_cast<std::int32_t>(program.ranks)) {
        return false;
    }
    program.operations.push_back(operation);
    return true;
}

// REQUIRES: the number of ranks is known.
bool are_endpoints(const Program& program) {
    std::uint64_t sum = 0;
    for (const std::uint32_t count : program.endpoints) {
        if (count < 1 || count > kMaxEndpoints) {
            return false;
        }
        sum += count;
    }
    return sum == program.ranks;
}

bool read_line(const std::string& line, Program& program) {
    std::istringstream words(line);
    std::string first;
    if (!(words >> first)) {
        return true;
    }
    if (first == "ranks") {
        return static_cast<bool>(words >> program.ranks) && program.ranks > 0;
    }
    if (first == "endpoints") {
        for (std::uint32_t count = 0; words >> count;) {
            program.endpoints.push_back(count);
        }
        return words.eof() && are_endpoints(program);
    }
    if (first == "schedule") {
        return static_cast<bool>(words >> program.schedule);
    }
    if (first == "around") {
        std::string one;
        std::string other;
        const bool read = static_cast<bool>(words >> one >> other);
        program.around.insert(program.around.end(), {one, other});
        return read;
    }
    for (const auto& [name, list] : kLists) {
        if (first == name) {
            Setting setting;
            const bool read = static_cast<bool>(words >> setting.name >> setting.value);
            if (list != &Program::world && !(words >> setting.rank)) {
                setting.rank = Setting::kAllRanks;
            }
            (program.*list).push_back(setting);
            return read;
        }
    }
    return read_operation(first, words, program);
}

} // namespace

bool has_setting(const std::vector<Setting>& list, std::string_view name) {
    return std::any_of(list.begin(), list.end(),
                       [name](const Setting& each) { return each.name == name; });
}

std::string print(const Program& program) {
    std::ostringstream out;
    out << "ranks " << program.ranks << "\n";
    if (!program.endpoints.empty()) {
        out << "endpoints";
        for (const std::uint32_t count : program.endpoints) {
            out << " " << count;
        }
        out << "\n";
    }
    out << "schedule " << program.schedule << "\n";
    for (const auto& [name, list] : kLists) {
        for (const Setting& setting : program.*list) {
            out << name << " " << setting.name << " " << setting.value;
            if (setting.rank != Setting::kAllRanks) {
                out << " " << setting.rank;
            }
            out << "\n";
        }
    }
    for (std::size_t i = 0; i < program.around.size(); i += 2) {
        out << "around " << program.around[i] << " " << program.around[i + 1] << "\n";
    }
    for (const Operation& operation : program.operations) {
        out << operation.rank << " " << kVerbs[static_cast<std::size_t>(operation.verb)];
        for_each_field(operation, [&](const char* name, const auto& value) {
            if (value != 0) {
                out << " " << name << "=" << value;
            }
        });
        out << "\n";
    }
    return out.str();
}

bool read(const std::string& text, Program& program, std::string& problem) {
    program = Program{};
    std::istringstream lines(text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
        if (!read_line(line.substr(0, line.find('#')), program)) {
            problem = "line " + std::to_string(number) + " is not understood: " + line;
            return false;
        }
    }
    return program.check_all_parameters(problem);
}

bool Program::check_all_parameters(std::string& problem) const {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        if (!check_parameters(parameters(rank), problem)) {
            return false;
        }
    }
    return true;
}

Parameters Program::parameters(std::uint32_t rank) const {
    Parameters values = default_parameters();
    const Parameters& process = process_parameters();
    const char* const base = reinterpret_cast<const char*>(&process);
    for (const Setting& setting : settings) {
        for (const auto& row : parameter_table()) {
            if (setting.name != row.name || !setting.is_of(rank)) {
                continue;
            }
            void* place =
                reinterpret_cast<char*>(&values) + (static_cast<const char*>(row.storage) - base);
            switch (row.type) {
            case OPAL_COMMON_ADAPTIB_TYPE_INT:
                *static_cast<int*>(place) = std::atoi(setting.value.c_str());
                break;
            case OPAL_COMMON_ADAPTIB_TYPE_SIZE:
                *static_cast<std::size_t*>(place) =
                    std::strtoull(setting.value.c_str(), nullptr, 10);
                break;
            case OPAL_COMMON_ADAPTIB_TYPE_STRING:
                *static_cast<char**>(place) = const_cast<char*>(setting.value.c_str());
                break;
            case OPAL_COMMON_ADAPTIB_TYPE_DOUBLE: break; // no program sets one
            }
        }
    }
    return values;
}

bool Program::lacks_responders() const {
    return std::any_of(world.begin(), world.end(), [](const Setting& each) {
        return each.name == "responders" && each.value == "0";
    });
}

std::uint64_t Program::least_patience() const {
    constexpr std::uint64_t kTicks = 1000;
    const bool computes =
        std::any_of(operations.begin(), operations.end(), [](const Operation& each) {
            return each.verb == Verb::compute && each.amount > kTicks;
        });
    const bool loses = std::any_of(world.begin(), world.end(), [](const Setting& each) {
        return each.name == "datagram_loss" && each.value != "0";
    });
    return computes ? 0 : loses ? 20 : 3;
}

Bytes Program::window_bytes() const {
    Bytes bytes = 1;
    for (const Operation& operation : operations) {
        if (operation.verb == Verb::put || operation.verb == Verb::get) {
            bytes = std::max<Bytes>(bytes, operation.offset + operation.bytes);
        }
    }
    return bytes;
}

} // namespace adaptib::torture
