"""Checks that no two types have the same qualified name. This would violate the one-definition rule: the
linker keeps the functions of one type, which misread objects of the other, and compilers do not report it."""
import collections
import re
import unittest

from harness import REPOSITORY

FOLDERS = ("include", "src", "tools", "python", "tests", "bench")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
                      re.DOTALL)
NAMESPACE = re.compile(r"\bnamespace\s*([\w:]*)\s*$")
TYPE = re.compile(r"\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(\w+)"
                  r"(?:\s+final)?\s*(?::(?!:)[^;{}()]*)?$")


def types_of(text):
    """Qualified names of types that are defined outside of functions and unnamed namespaces."""
    text = re.sub(r"^\s*#.*?(?<!\\)$", "", NOT_CODE.sub('""', text), flags=re.MULTILINE | re.DOTALL)
    scopes, head, found = [], 0, []
    for at, char in enumerate(text):
        if char == "{":
            before = text[head:at].strip()
            namespace, kind = NAMESPACE.search(before), TYPE.search(before)
            if namespace:
                scopes.append(namespace[1])  # empty if the namespace is unnamed
            elif kind and None not in scopes and "" not in scopes:
                scopes.append(kind[1])
                found.append("::".join(scopes))
            else:
                scopes.append(None)
        elif char == "}" and scopes:
            scopes.pop()
        if char in "{};":
            head = at + 1
    return found


def definitions():
    """The places where each type is defined."""
    places = collections.defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((REPOSITORY / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                for name in types_of(path.read_text()):
                    places[name].append(str(path.relative_to(REPOSITORY)))
    return places


class Names(unittest.TestCase):
    def test_what_is_found(self):
        self.assertEqual(types_of("""
            namespace a::b { struct X {}; enum class E : int { kOne }; struct Y : X { class In {}; };
              namespace { struct Hidden {}; }  // struct Comment {
              template <typename T> class T1 final : public X { void F() { struct Local {}; } };
              void F() { struct Local2 {}; }  struct Later; }"""),
            ["a::b::X", "a::b::E", "a::b::Y", "a::b::Y::In", "a::b::T1"])

    def test_each_type_is_defined_once(self):
        places = definitions()
        self.assertGreater(len(places), 300)
        twice = {name: files for name, files in places.items() if len(files) > 1}
        self.assertEqual(twice, {})


if __name__ == "__main__":
    unittest.main()
