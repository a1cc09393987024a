# SPDX-License-Identifier: BSD-3-Clause
"""Reads classes and how they refer to each other from C++ text, as far as test/check/structure counts.

classes_of(text) returns the classes that are defined there (enum classes, too), with their bases and
fields. Layout does not matter, but the text has to compile. Graph answers which of them implement
an interface, and which reach each other.
"""

import re

HEAD = re.compile(r"\b(class|struct)\s+(?:alignas\([^)]*\)+\s*|\[\[[^\]]*\]\]\s*)*(\w+)\s*"
                  r"(?:final\s*)?(:.*)?$", re.S)
NO_FIELD = re.compile(r"(using|friend|typedef|enum|union|class|struct|static|static_assert|template|"
                      r"constexpr|extern|operator|explicit|virtual|namespace)\b")


class Class:
    """A class: its name, `Outer::Inner` for one within another, bases, and the texts of its members"""

    def __init__(self, name, bases):
        self.name = name
        self.bases = bases
        self.fields = []  # (type, name)
        self.functions = 0
        self.pure = 0
        self.inner = []

    def uses(self):
        """The names in the types of its fields, and in those of the classes within it"""
        found = {word for kind, _ in self.fields for word in re.findall(r"\w+", kind)}
        return found.union(*(each.uses() for each in self.inner))

    def has_state(self):
        """Whether it keeps anything but references to others and what never changes"""
        return any("&" not in kind and not kind.startswith("const ") for kind, _ in self.fields)


def without_comments(text):
    """The text without comments, directives of the preprocessor and the contents of strings"""
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/',
                  lambda found: '""' if found.group()[0] == '"' else "0" if found.group()[0] == "'"
                  else "", text, flags=re.S)
    return re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)


def statements(text):
    """(head, body) of each statement at the text's outermost level; body: None without braces"""
    depth, start, opened, body = 0, 0, None, None
    for found in re.finditer(r"[{};]", text):
        at = found.start()
        if found.group() == "{":
            opened = at if depth == 0 and opened is None else opened
            depth += 1
            continue
        if found.group() == "}":
            depth -= 1
            if depth > 0 or re.match(r"\}\s*[;,){.]", text[at:at + 80]):
                continue
        if depth == 0:
            body = None if opened is None else text[opened + 1:text.rfind("}", opened, at + 1)]
            yield text[start:at if opened is None else opened].strip(), body
            start, opened = at + 1, None


def without_templates(text):
    while re.search(r"<[^<>]*>", text):
        text = re.sub(r"<[^<>]*>", "", text)
    return text


def read_member(one, head, body):
    head = re.sub(r"^(?:(?:public|private|protected)\s*:\s*)+", "", head)
    if re.search(r"\)[\w\s]*=\s*0$", head):
        one.pure += 1
    plain = re.sub(r"\[\[[^\]]*\]\]|alignas\([^)]*\)", "", without_templates(head)).strip()
    if "(" in plain.split("=")[0] or "operator" in plain:
        one.functions += 1
    elif plain and not NO_FIELD.match(plain):
        declared = re.sub(r"\[\[[^\]]*\]\]\s*", "", head).split("=")[0]
        kind, name = re.match(r"(.*?)(\w+)\s*(?:\[[^\]]*\])*\s*(?::\s*\d+)?$", declared.strip(),
                              re.S).groups()
        one.fields.append((kind.strip(), name))


def classes_of(text, outer=""):
    found = []
    for head, body in statements(text if outer else without_comments(text)):
        if body is None:
            continue
        if re.search(r"\bnamespace\b[^;()]*$", head) or head.endswith('extern ""'):
            found += classes_of(body, " ")
            continue
        match = re.search(r"\b(class|struct)\b", head) and HEAD.search(without_templates(head))
        if not match or "(" in without_templates(head).split(match.group(2))[0]:
            continue
        bases = re.findall(r"(\w+)\s*(?:,|$)", match.group(3) or "")
        one = Class((outer + "::" + match.group(2)).lstrip(" :"), bases)
        for inner_head, inner_body in statements(body):
            read_member(one, inner_head, inner_body)
        inner = classes_of(body, one.name)
        one.inner = [each for each in inner if each.name.count("::") == one.name.count("::") + 1]
        found += [one] + inner
    return found


class Graph:
    """Classes and what each of them reaches: `classes` maps their names to them"""

    def __init__(self, classes):
        self.classes = classes
        self.derived = {}
        for one in classes.values():
            for base in one.bases:
                self.derived.setdefault(base, set()).add(one.name)

    def is_abstract(self, name):
        one = self.classes.get(name)
        return one is not None and (one.pure > 0 or (
            bool(one.bases) and one.functions == 0 and not one.fields
            and any(self.is_abstract(base) for base in one.bases)))

    def implementations(self, name):
        """The concrete classes that derive from it, directly or not"""
        found = set()
        for each in self.derived.get(name, ()):
            found |= self.implementations(each) if self.is_abstract(each) else {each}
        return found

    def circles(self, facades, within):
        """The sets of classes of `within` that all reach each other, by their fields"""
        edges = {}
        for name, one in self.classes.items():
            if name in facades or name not in within or "::" in name:
                continue
            targets = set()
            for used in one.uses():
                implementations = self.implementations(used) if self.is_abstract(used) else ()
                targets |= set(implementations) if len(implementations) == 1 else {used}
            edges[name] = {each for each in targets if each in within and each not in facades}
        reached = {}
        for name in edges:
            seen, ahead = set(), [name]
            while ahead:
                for each in edges.get(ahead.pop(), ()):
                    if each not in seen:
                        seen.add(each)
                        ahead.append(each)
            reached[name] = seen
        done, found = set(), []
        for name in sorted(edges):
            circle = {each for each in reached[name] if name in reached.get(each, ())}
            if len(circle) > 1 and name not in done:
                found.append(circle)
                done |= circle
        return found
