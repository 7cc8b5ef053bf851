"""How colours look: contrast by WCAG 2, and differences as eyes without one kind of cone see them."""

import math

# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
VISIONS = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
XYZ_OF_RGB = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)


def linear(rgb):
    """From 0 … 255 as stored to 0 … 1 of light."""
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in rgb)]


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def contrast(rgb, background):
    first, second = sorted((times(XYZ_OF_RGB, linear(c))[1] for c in (rgb, background)), reverse=True)
    return (first + 0.05) / (second + 0.05)


def lab(light):
    x, y, z = (t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116
               for t in (value / white for value, white in zip(times(XYZ_OF_RGB, light), WHITE)))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def least_difference(first, second):
    """The CIE 76 difference of two colours "#rrggbb" in the vision that tells them apart least."""
    lights = [linear(bytes.fromhex(color[1:])) for color in (first, second)]
    return min(math.dist(*(lab([min(1, max(0, c)) for c in times(vision, light)]) for light in lights))
               for vision in VISIONS.values())
