"""What a server-sent events client must make of a body: names, pieces sent, events expected.

The behaviours of LaunchDarkly's contract tests (parsing, byte order mark, comments, line ends) and the format vectors
of the web platform tests, in our own words. An expectation is the data, an `event` or a `Comment`.
"""

import base64
import random
from dataclasses import dataclass

BOM = "\ufeff"


@dataclass(frozen=True)
class Comment:
    text: str


@dataclass(frozen=True)
class Vector:
    name: str
    pieces: tuple
    expected: tuple
    pause: float = 0.0

    def __str__(self):
        return self.name


def vector(name, pieces, *expected, pause=0.0):
    return Vector(name, (pieces,) if isinstance(pieces, (str, bytes)) else tuple(pieces), expected, pause)


def event(data, type="message", id=""):
    return (data, {"type": type, "id": id})


def bytewise(text, size=1):
    data = text.encode()
    return [data[index:index + size] for index in range(0, len(data), size)]


def big(seed=7):
    """5 MiB of random bytes, as base64 on one line."""
    return base64.b64encode(random.Random(seed).randbytes(5 << 20)).decode()


def parsing():
    """The 21 of the 23 that are short; see `large`."""
    return [
        vector("one-line message in one chunk", "data: Hello\n\n", "Hello"),
        vector(
            "two messages in overlapping chunks", ["data: test", "test\n\ndata:", "test\n\n"], "testtest", "test",
            pause=0.01),
        vector("one-line message in two chunks", ["data: Hel", "lo\n\n"], "Hello", pause=0.01),
        vector("two messages in one chunk", "data: Hello\n\ndata: World\n\n", "Hello", "World"),
        vector("two-line message", "data: Hello\ndata: World\n\n", "Hello\nWorld"),
        vector("empty data", "data:\n\n", ""),
        vector("event with type", "event: greeting\ndata: Hello\n\n", event("Hello", "greeting")),
        vector("default type", "data: Hello\n\n", event("Hello", "message")),
        vector("event with id", "id: abc\ndata: Hello\n\n", event("Hello", id="abc")),
        vector("event with type and id", "event: greeting\nid: abc\ndata: Hello\n\n", event("Hello", "greeting", "abc")),
        vector("id with NUL is ignored", "id: a\0bc\ndata: Hello\n\n", event("Hello", id="")),
        vector(
            "id persists", "id: abc\ndata: first\n\ndata: second\n\n", event("first", id="abc"), event("second", id="abc")),
        vector(
            "empty id resets", "id: abc\ndata: first\n\nid: \ndata: second\n\n", event("first", id="abc"),
            event("second", id="")),
        vector("fields in reverse order", "data: Hello\nid: abc\nevent: greeting\n\n", event("Hello", "greeting", "abc")),
        vector("unknown field", "event: greeting\ncolour: blue\ndata: Hello\n\n", event("Hello", "greeting")),
        vector("no space after colon", "event:greeting\ndata:Hello\n\n", event("Hello", "greeting")),
        vector("only one space is removed", "event:  greeting\ndata:  Hello\n\n", event(" Hello", " greeting")),
        vector("bare data", "data\n\ndata\ndata\n\n", "", "\n"),
        vector("multi-byte characters", "data: €豆腐\n\n", "€豆腐"),
        vector("100 messages", "".join(f"data: {n}\n\n" for n in range(100)), *(str(n) for n in range(100))),
        vector("multi-byte characters bytewise", bytewise("data: €豆腐\n\n"), "€豆腐", pause=0.02),
    ]


def large():
    text = big()
    whole = f"data: {text}\n\n"
    return [
        vector("5 MiB in one chunk", whole, text),
        vector("5 MiB in two chunks", [whole[: len(whole) // 2], whole[len(whole) // 2:]], text),
    ]


def byte_order_mark():
    mark = BOM.encode()
    return [
        vector("BOM at the start", BOM + "data: Hello\n\n", "Hello"),
        vector("BOM before type and id", BOM + "event: e\nid: i\ndata: Hello\n\n", event("Hello", "e", "i")),
        vector("BOM before two messages", BOM + "data: one\n\ndata: two\n\n", "one", "two"),
        vector("BOM inside data", f"data: a\n\ndata: {BOM}b\n\n", "a", BOM + "b"),
        vector("BOM split in two", [mark[:2], mark[2:] + b"data: Hello\n\n"], "Hello", pause=0.01),
        vector("BOM bytewise", [mark[:1], mark[1:2], mark[2:], "data: Hello\n\n"], "Hello", pause=0.01),
        vector("only the first BOM", f"{BOM}{BOM}data: one\n\ndata: two\n\n", "two"),
        vector("no BOM", "data: Hello\n\n", "Hello"),
        vector("BOM before multi-line data", BOM + "data: Hello\ndata: World\n\n", "Hello\nWorld"),
        vector("BOM before a comment", BOM + ": hi\ndata: Hello\n\n", Comment("hi"), "Hello"),
        vector("BOM before data without space", BOM + "data:Hello\n\n", "Hello"),
    ]


def comments():
    return [
        vector("single comment", ":Hello\n", Comment("Hello")),
        vector("two comments", ":Hello\n:World\n", Comment("Hello"), Comment("World")),
        vector("comment before event", ":Hello\ndata: Hi\n\n", Comment("Hello"), "Hi"),
        vector("comment after event", "data: Hi\n\n:Hello\n", "Hi", Comment("Hello")),
    ]


SHAPES = {
    "one line": (["data: Hello", ""], ["Hello"]),
    "one line and two lines": (["data: Hello", "", "data: World", "data: OK", ""], ["Hello", "World\nOK"]),
    "empty first line": (["data:", "data: line2", "data: line3", ""], ["\nline2\nline3"]),
    "empty middle line": (["data: line1", "data:", "data: line3", ""], ["line1\n\nline3"]),
    "one more blank line": (["data: Hello", "", "", "data: World", ""], ["Hello", "World"]),
    "two more blank lines": (["data: Hello", "", "", "", "data: World", ""], ["Hello", "World"]),
}


def line_ends():
    vectors = []
    for name, end in (("LF", "\n"), ("CRLF", "\r\n"), ("CR", "\r")):
        for shape, (lines, expected) in SHAPES.items():
            text = "".join(line + end for line in lines)
            vectors.append(vector(f"{name}, {shape}, one chunk", text, *expected))
            vectors.append(vector(f"{name}, {shape}, 1-byte chunks", bytewise(text), *expected, pause=0.01))
            vectors.append(vector(f"{name}, {shape}, 2-byte chunks", bytewise(text, 2), *expected, pause=0.01))
    pieces = ["data: Hello\r", "\ndata: World\r", "\n\r\ndata: OK\r", "\n", "\r", "\n"]
    vectors.append(vector("CRLF, CR at the ends of chunks", pieces, "Hello\nWorld", "OK", pause=0.01))
    return vectors


def _wpt(text):
    """As the suite's server sends it: with a blank line of its own at the end."""
    return text + "\n\n\n"


def web_platform():
    """Events only; the comments that some of them hold are not looked at."""
    long = "x" * 2048
    return [
        vector("format-bom", _wpt(f"{BOM}data:1\n\n{BOM}data:2\n\ndata:3"), "1", "3"),
        vector("format-bom-2", _wpt(f"{BOM}{BOM}data:1\n\ndata:2\n\ndata:3"), "2", "3"),
        vector(
            "format-comments", _wpt(f"data:1\r:\0\n:\r\ndata:2\n:{long}\rdata:3\n:data:fail\r:{long}\ndata:4\n"),
            "1\n2\n3\n4"),
        vector(
            "format-data-before-final-empty-line", "data:test1\n\nid:test\ndata:test2\n", event("test1", id="")),
        vector("format-field-data", _wpt("data:\n\ndata\ndata\n\ndata:test"), "", "\n", "test"),
        vector("format-field-event", _wpt("event:test\ndata:x\n\ndata:x"), event("x", "test"), event("x")),
        vector("format-field-event-empty", _wpt("event: \ndata:data"), event("data")),
        vector("format-field-id", _wpt("id: …\ndata:1\n\ndata:2"), event("1", id="…"), event("2", id="…")),
        vector("format-field-id-3 persists", _wpt("id: 1\ndata:a\n\ndata:b"), event("a", id="1"), event("b", id="1")),
        vector(
            "format-field-id-3 changes", _wpt("id: 1\ndata:a\n\nid: 2\ndata:b\n\ndata:c"), event("a", id="1"),
            event("b", id="2"), event("c", id="2")),
        vector(
            "format-field-id-3 resets", _wpt("id: 1\ndata:a\n\nid:\ndata:b\n\ndata:c"), event("a", id="1"),
            event("b"), event("c")),
        vector(
            "format-field-id-3 resets bare", _wpt("id: 1\ndata:a\n\nid\ndata:b\n\ndata:c"), event("a", id="1"),
            event("b"), event("c")),
        *(
            vector(f"format-field-id-null {text!r}", _wpt(f"id:{text}\ndata:a"), event("a"))
            for text in ("\0\0", "x\0", "\0x", "x\0x", " \0")
        ),
        vector(
            "format-field-parsing",
            _wpt(
                "data:\0\ndata:  2\rData:1\ndata\0:2\ndata:1\r\0data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\n"
                "data:4\n"),
            "\0\n 2\n1\n3\n\n4"),
        vector("format-field-retry-empty", _wpt("retry\ndata:test"), "test"),
        vector(
            "format-field-unknown",
            _wpt("data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\ndata:test"), "test\n\ntest"),
        vector("format-leading-space", _wpt("data:\ttest\rdata: \ndata:test"), "\ttest\n\ntest"),
        vector("format-newlines", _wpt("data:test\r\ndata\ndata:test\r\n\r"), "test\n\ntest"),
        vector("format-null-character", _wpt("data:\0\n\n"), "\0"),
        # Further edges of our own.
        vector("retry that is no number", "retry:99999999999999999999\nretry:+5\nretry:１\ndata:a\n\n", "a"),
        vector("invalid UTF-8 cut in two", [b"data:\xe2\x82", b"a\xff\n\n"], "\ufffda\ufffd"),
        vector("65 KiB line", f"data:{'y' * 66560}\n\n", "y" * 66560),
        vector("1 MiB comment", f":{'y' * (1 << 20)}\ndata:a\n\n", "a"),
        vector("CR as the very last byte", "data:a\r\r", "a"),
    ]
