"""The page as text: its size, its policy, its linker, its data."""

import base64
import json
import re
import zlib
from html.parser import HTMLParser

import pytest

from anabranch.inspection.linker import EXPORT, IMPORT, linked, source, squeezed, styled
from anabranch.inspection.shortened import free, shortened
from anabranch.inspection.to_html import ALL, STORY, page, shell

MODULES = [
    "app",
    "dom",
    "gradients",
    "layout",
    "math",
    "panel",
    "scene",
    "search",
    "story",
    "table",
    "why",
]


def test_the_page_is_small():
    assert len(shell(STORY).encode()) <= 64_000
    assert len(shell(ALL).encode()) <= 96_000


def test_the_page_asks_for_nothing(story):
    text = page(story)
    addresses = set(re.findall(r"https?://[^\"'\s<>`]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in text
    assert not re.search(r"\b(src|href)=(?!\"#hatch-g\")", shell().split("<noscript>")[0])


class Reader(HTMLParser):
    """Finds the data and every tag."""

    def __init__(self):
        super().__init__()
        self.tags, self.data, self._in = [], "", False

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in = tag == "script" and dict(attrs).get("id") == "trace"

    def handle_endtag(self, tag):
        self._in = False

    def handle_data(self, data):
        if self._in:
            self.data += data


HOSTILE = "</script><img src=x onerror=alert(1)><!--\ud800'\"&"


def test_no_name_closes_an_element(story):
    clean = Reader()
    clean.feed(page(story))
    story["title"] = HOSTILE
    story["sources"] = [{"file": HOSTILE, "first": 1, "text": [HOSTILE]}]
    for node in story["nodes"]:
        node.update(name=HOSTILE, op=HOSTILE if node["id"] > 1 else "input", dtype=HOSTILE)
    text = page(story)
    reader = Reader()
    reader.feed(text)
    count = [
        len([t for t in r.tags if t[0] in ("script", "img", "section")]) for r in (reader, clean)
    ]
    assert count[0] == count[1] and "<img" not in text.lower()
    assert json.loads(reader.data)["title"] == HOSTILE
    assert text.encode()


def test_the_data_is_the_trace_and_its_rows(story):
    reader = Reader()
    reader.feed(page(story))
    data = json.loads(reader.data)
    assert data.pop("layout")["0"]["items"] == [0, 1, 2, 3, 4]
    assert data == story


def test_large_data_is_packed(story):
    story["sources"] = [{"file": "big.py", "first": 1, "text": ["x" * 1_200_000]}]
    text = page(story)
    assert len(text) < 150_000
    reader = Reader()
    reader.feed(text)
    data = json.loads(zlib.decompress(base64.b64decode(reader.data)))
    assert data["sources"] == story["sources"]


def test_the_modules_keep_the_rules_of_the_linker():
    names = []
    for module in MODULES:
        text = source(f"{module}.js")
        lines = text.splitlines()
        assert [line for line in lines if re.match(r"\s*import\b", line)] == [
            m[0].rstrip("\n") for m in IMPORT.finditer(text)
        ]
        for line in lines:
            if line.startswith("export"):
                assert EXPORT.match(line), line
            assert not re.search(r"\bimport\(|\bdefault\b", line.split("//")[0]), line
        for imported in IMPORT.finditer(text):
            exported = source(f"{imported[1]}.js")
            for name in re.search(r"\{([^}]*)\}", imported[0])[1].split(","):
                wanted = rf"\b{re.escape(name.strip())}\b"
                assert any(
                    re.search(wanted, line) for line in exported.splitlines() if "export " in line
                ), f"{module} imports {name} from {imported[1]}"
        top = re.findall(r"^(?:export )?(?:async )?(?:const|let|class|function) (.*)$", text, re.M)
        names += [re.match(r"\w+", line)[0] for line in top if re.match(r"\w+", line)]
    assert sorted(names) == sorted(set(names))


def test_only_text_is_set():
    for module in MODULES:
        text = source(f"{module}.js")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", text
        )


def test_every_module_is_linked_once_and_before_its_readers():
    script = linked(["app", *ALL])
    for name in ("function el(", "function place(", "function indexOf(", "function start("):
        assert script.count(name) == 1
    assert script.index("function el(") < script.index("function scene(")
    assert "import " not in script and "export " not in script


@pytest.mark.parametrize(
    ("script", "short"),
    [
        ("a = b; // c\nd;", "a=b;d;"),
        ("x = 'a  // b';", "x='a  // b';"),
        ("a /* b */ + c", "a+c"),
        ("a + +b - -c", "a+ +b- -c"),
        ("return `a  ${ b + `c ${ d }` }  e`;", "return`a  ${b+`c ${d}`}  e`;"),
        ("s.replace(/ [/\"'] /g, `\\``)", "s.replace(/ [/\"'] /g,`\\``)"),
        ("a / b / c", "a/b/c"),
        ("if (a) { b; }\nc();", "if(a){b}c();"),
        ("if (a) { b; }\n(c);", "if(a){b}\n(c);"),
        ("const a = 1;\nconst b = [1, 2];\nf(a);\nlet c;", "let a=1,b=[1,2];f(a);let c;"),
        (
            "for (let i = 0; i < 3; i++) { const a = i; let { b } = a; }",
            "for(let i=0;i<3;i++){let a=i,{b}=a}",
        ),
        ("const a = 1;\n[b, c] = [c, b];\nconst d = 2;", "let a=1;[b,c]=[c,b];let d=2;"),
        ("const a = {};\nif (a) { }\n[b] = a;\nlet c;", "let a={};if(a){}\n[b]=a;let c;"),
        ("const f = () => { const a = 1; };\nconst b = 2;", "let f=()=>{let a=1},b=2;"),
        ("f(true, a.true, undefined, -Infinity);", "f(!0,a.true,void 0,-1/0);"),
        ("(x) => (y) => x", "x=>y=>x"),
        ("f((x) => 1)", "f(x=>1)"),
        ("(a, b) => a", "(a,b)=>a"),
        ("const constant = 1;", "let constant=1;"),
        ("`\\${a  b}`", "`\\${a  b}`"),
        ("a in b", "a in b"),
        ("x = { a: '}' };", "x={a:'}'};"),
    ],
)
def test_scripts_are_squeezed_and_mean_the_same(script, short):
    assert squeezed(script) == short


@pytest.mark.parametrize(
    ("script", "short"),
    [
        ("let f=(first,second)=>first+second;", "let f=(a,b)=>a+b;"),
        ("let f=one=>one.one?.one+`${one} one`;", "let f=a=>a.one?.one+`${a} one`;"),
        ("let f=one=>`${`${one}`} \\${one}`;", "let f=a=>`${`${a}`} \\${one}`;"),
        ("let f=one=>({one,two:one,...one});", "let f=a=>({one:a,two:a,...a});"),
        ("let f=({one,two:{other=one}})=>other;", "let f=({one:a,two:{other:b=a}})=>b;"),
        ("let f=one=>one?one:one;", "let f=a=>a?a:a;"),
        ("let f=()=>{let one,two=[1,3],six=two;g(six,one)};",
         "let f=()=>{let a,c=[1,3],b=c;g(b,a)};"),
        ("let f=()=>{for(let one of list){one(two)}};", "let f=()=>{for(let a of list){a(two)}};"),
        ("let f=(one)=>({show(two){one(two)},one(){}});", "let f=(a)=>({show(b){a(b)},one(){}});"),
        ("let one=1;function two(one){one()}", "let one=1;function two(one){one()}"),
        ("let f=one=>a+one;", "let f=b=>a+b;"),
        ("let f=one=>/one/.test(one);", "let f=a=>/one/.test(a);"),
        ("let f=()=>g(function inner(one){inner(one)});", "let f=()=>g(function a(b){a(b)});"),
    ],
)  # fmt: skip
def test_names_are_shortened_and_mean_the_same(script, short):
    assert shortened(script) == short


def test_what_the_browser_gives_keeps_its_name():
    given = """
        Array Blob Boolean DecompressionStream JSON Map Math NaN Number Object RegExp Response Set
        String URLSearchParams Uint8Array addEventListener atob clearInterval clearTimeout document
        history location matchMedia navigator performance requestAnimationFrame setInterval
        setTimeout"""
    assert free(linked(["app", *ALL])) == set(given.split())
    assert "function confluence(" in shell()


def test_styles_are_squeezed():
    text = styled(["style.css"])
    assert "/*" not in text and "  " not in text
    assert "calc(var(--n) * 76px)" in text and "a > b" not in text
    assert text.count("{") == text.count("}") == source("style.css").count("{")
