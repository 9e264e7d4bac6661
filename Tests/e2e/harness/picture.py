"""Small pictures of a page, and how much two of them differ: layout and colors count, the letters of a font hardly do."""

import base64
import zlib

# A page's pixels that one pixel of the picture stands for, along a side.
COARSENESS = 12
# Moments, curves and identifiers are other ones each time; the room of a moment is as wide as its words.
CHANGING = ("time, code, svg path, svg rect, svg text, svg .publish, #strip .quiet { visibility: hidden !important } "
            "time { display: inline-block; width: 60px; height: 14px; overflow: hidden }")


def picture(browser, width, height):
    """The top of the page that is shown, as rows of `(red, green, blue)`."""
    browser.evaluate(f"""void (window.calm ??= (sheet => (sheet.replaceSync({CHANGING!r}),
        document.adoptedStyleSheets = [sheet], true))(new CSSStyleSheet()))""")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1 / COARSENESS}
    return decoded(base64.b64decode(browser.call("Page.captureScreenshot", format="png", clip=clip)["data"]))


def decoded(png):
    """A PNG of 8 bits a color without interlacing, which is what Chromium makes."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n", png[:8]
    place, data = 8, b""
    while place < len(png):
        size, kind = int.from_bytes(png[place:place + 4], "big"), png[place + 4:place + 8]
        body = png[place + 8:place + 8 + size]
        if kind == b"IHDR":
            width, height = (int.from_bytes(body[at:at + 4], "big") for at in (0, 4))
            depth, channels, interlaced = body[8], {2: 3, 6: 4}[body[9]], body[12]
            assert (depth, interlaced) == (8, 0)
        if kind == b"IDAT":
            data += body
        place += size + 12
    raw, stride, rows, before = zlib.decompress(data), width * channels, [], bytes(width * channels)
    for row in range(height):
        start = row * (stride + 1)
        line = unfiltered(raw[start], bytearray(raw[start + 1:start + 1 + stride]), before, channels)
        rows.append([tuple(line[at:at + 3]) for at in range(0, stride, channels)])
        before = line
    return rows


def unfiltered(kind, line, above, channels):
    for at in range(len(line)):
        left = line[at - channels] if at >= channels else 0
        corner = above[at - channels] if at >= channels else 0
        up = above[at]
        line[at] = (line[at] + (0, left, up, (left + up) // 2, paeth(left, up, corner))[kind]) & 0xFF
    return line


def paeth(left, up, corner):
    guess = left + up - corner
    return min((abs(guess - one), order, one) for order, one in enumerate((left, up, corner)))[2]


def difference(a, b):
    """Share of the pixels whose color differs clearly; 1 for pictures of two sizes."""
    if (len(a), len(a[0])) != (len(b), len(b[0])):
        return 1.0
    pairs = [(x, y) for row, other in zip(a, b) for x, y in zip(row, other)]
    return sum(max(abs(p - q) for p, q in zip(x, y)) > 40 for x, y in pairs) / len(pairs)


def packed(rows):
    """As a file keeps it: width, then the pixels in 12 bits each, deflated, as text."""
    levels = bytes(level >> 4 for row in rows for pixel in row for level in pixel)
    return f"{len(rows[0])} {base64.b64encode(zlib.compress(levels, 9)).decode()}"


def unpacked(text):
    width, data = text.split(" ")
    levels = [level << 4 | level for level in zlib.decompress(base64.b64decode(data))]
    pixels = [tuple(levels[at:at + 3]) for at in range(0, len(levels), 3)]
    return [pixels[at:at + int(width)] for at in range(0, len(pixels), int(width))]
