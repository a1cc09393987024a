// SPDX-License-Identifier: BSD-3-Clause
#include "selftest/report.h"

#include <cstdio>

namespace adaptib::selftest {

namespace {

const char* verdict_word(Verdict verdict) {
    switch (verdict) {
    case Verdict::ok: return "ok";
    case Verdict::note: return "note";
    case Verdict::skipped: return "skipped";
    case Verdict::failed: break;
    }
    return "failed";
}

// A text as one field of a line.
std::string field(std::string text) {
    for (char& c : text) {
        c = c == '\t' || c == '\n' || c == '\r' ? ' ' : c;
    }
    return text;
}

} // namespace

void Report::print(const std::string& line) const {
    if (prints_) {
        std::printf("%s\n", line.c_str());
        std::fflush(stdout);
    }
}

void Report::check(const std::string& name, const std::string& subject,
                   const Outcome& outcome) const {
    print("check\t" + name + "\t" + subject + "\t" + verdict_word(outcome.verdict) + "\t" +
          field(outcome.text));
}

void Report::fact(const std::string& name, const std::string& subject,
                  const std::string& value) const {
    print("fact\t" + name + "\t" + subject + "\t" + field(value));
}

void Report::host(int number, const std::string& json) const {
    print("host\t" + std::to_string(number) + "\t" + field(json));
}

void Report::fatal(const std::string& text) const { print("fatal\t" + field(text)); }

Outcome joined(const Outcome& a, const Outcome& b) {
    const Outcome& graver = b.verdict > a.verdict ? b : a;
    if (a.verdict != b.verdict || a.text.empty() || b.text.empty() || a.text == b.text) {
        return graver.text.empty() ? Outcome{graver.verdict, a.text + b.text} : graver;
    }
    return {a.verdict, a.text + "; " + b.text};
}

} // namespace adaptib::selftest
