r"""Mathematics that is no answer: expensive, malformed, or without a value.

Each function makes one text from a generator of random numbers. None may be equal to a gold of
`hostile.GOLDS`: sizes are drawn so that values stay away from them.
"""

from __future__ import annotations

import string
from random import Random

# fmt: off
#: Numbers that are none, or nearly none.
_CORNERS = [
    "1e309", "-1e309", "1e-400", "-0", "0/0", "1/0", "nan", "inf", "oo", "zoo", "NaN", "-inf", "0^0", "0^{-1}",
    r"\frac{0}{0}", r"\frac{1}{0}", r"\infty - \infty", r"0 \cdot \infty", r"\frac{\infty}{\infty}", r"\log 0",
    r"\tan \frac{\pi}{2}", r"\sqrt{-1}^{\infty}", "1e1e1e1", "0x1EEF", "0b11", "1_000", "1__0", "++6", "--6", "6-",
    "6..5", "6.5.4", "6,5,4", ",6", "6,", "e", "E5", "e5", "5e", ".", "-", "+", "%", "/", "6/", "/6", "6//5", "1/2/3",
]
# fmt: on


def nesting(rng: Random) -> str:
    """Brackets, fractions, roots and the like inside each other, mostly far deeper than any answer."""
    depth = rng.choices((rng.randint(2, 20), rng.randint(21, 60), rng.randint(61, 600)), (0.45, 0.35, 0.2))[0]
    pairs = [
        ("(", ")"),
        ("{", "}"),
        ("[", "]"),
        (r"\left(", r"\right)"),
        (r"\left\{", r"\right\}"),
        ("|", "|"),
        (r"\{1, ", r"\}"),
        ("(1, ", ", 2)"),
        ("{2, ", ", 1}"),
        (r"\frac{1}{", "}"),
        (r"\frac{", "}{3}"),
        (r"\sqrt{", "}"),
        (r"\sqrt[3]{", "}"),
        ("-(", ")"),
        (f"{rng.randint(2, 99)}(", ")"),
        (r"\sin(", ")"),
        (r"\log_{", "}{2}"),
        (r"\lfloor ", r" \rfloor"),
        ("x^{", "}"),
        (r"\text{", "}"),
        (r"\boxed{", "}"),
        (r"\overline{", "}"),
        (r"\binom{5}{", "}"),
    ]
    chosen = rng.sample(pairs, rng.choice((1, 1, 2, 3)))
    opened = [rng.choice(chosen) for _ in range(depth)]
    core = rng.choice(["x", str(rng.randint(2, 999)), r"\pi", ""])
    closing = [end for _, end in reversed(opened)]
    if rng.random() < 0.2:
        del closing[: rng.randint(1, depth)]
    return "".join(start for start, _ in opened) + core + "".join(closing)


def towers(rng: Random) -> str:
    """Powers of powers, and exponents that ask for more digits than there is memory."""
    a, b, c = (rng.randint(2, 99) for _ in range(3))
    huge = rng.choice([str(rng.randint(10**5, 10**12)), rf"10^{{{rng.randint(5, 40)}}}", "9" * rng.randint(6, 300)])
    return rng.choice(
        [
            f"{a}^{{{b}^{{{c + 5}}}}}",
            f"{a}^{b}^{c}^{a}",
            f"{a}**{b}**{c}**{a}",
            "^".join([str(a)] * rng.randint(3, 50)),
            "^{".join([str(a)] * (depth := rng.randint(3, 15))) + "}" * (depth - 1),
            f"{a}^{{{huge}}}",
            f"{a}^{{-{huge}}}",
            f"x^{{{huge}}} - x",
            f"({a}^{{{b}}})^{{{huge}}}",
            f"{{{{{a}}}^{{{huge}}}}}^{{{c}}}",
            f"e^{{e^{{e^{{{a}}}}}}}",
            rf"\sqrt[{huge}]{{{a}}}",
            rf"\left(1+\frac{{1}}{{{huge}}}\right)^{{{huge}}}",
            f"1.{a}^{{{huge}}}",
            rf"{a}^{{{huge}}} \bmod {c}",
            rf"\log({a}^{{{huge}}}!)",
            rf"{a}\uparrow\uparrow {b}",
            rf"\frac{{{a}^{{{huge}}}}}{{{b}^{{{huge}}}}}",
            f"({a}+{b}i)^{{{huge}}}",
            f"{a}^{{({b}^{c})^{a}}}",
            f"({a}+{b})^{{{b}+{huge}}}",
            f"(x+y+z)^{{{rng.randint(1000, 10**6)}}}",
        ]
    )


def factorials(rng: Random) -> str:
    """Factorials: large, of factorials, and many."""
    n, k = rng.randint(1001, 10**9), rng.randint(3, 200)
    return rng.choice(
        [
            f"{n}!",
            f"({n})!",
            f"{{{n}}}!",
            f"{k}" + "!" * rng.randint(3, 40),
            "(" * (depth := rng.randint(3, 15)) + str(k) + "!)" * depth,
            rf"\frac{{{n}!}}{{{n - 7}!}}",
            rf"\frac{{1}}{{{n}!}}",
            " + ".join(f"{n + i}!" for i in range(rng.randint(2, 60))),
            r" \cdot ".join(f"{k + i}!" for i in range(rng.randint(20, 150))),
            rf"{n} \cdot {k}! + {n}!",
            f"({k}!)^{{{k}!}}",
            f"{k}^{{{n}!}}",
            f"({n}-1)!",
            rf"\left({k} \cdot {n}\right)!",
            f"(10^{{{rng.randint(5, 30)}}})!",
            f"{n}!!",
            f"{n} !",
            f"x! + {n}!",
        ]
    )


def sums(rng: Random) -> str:
    """Sums and products with bounds that nobody can count to."""
    top = rng.choice([str(rng.randint(10**5, 10**12)), rf"10^{{{rng.randint(6, 30)}}}", "9" * rng.randint(8, 100)])
    term = rng.choice([r"\frac{1}{k}", "k^2", "k^k", r"\sin(k)", "k!", r"\sqrt{k}", "2^{k}", r"\frac{x^k}{k!}"])
    sign = rng.choice([r"\sum", r"\prod"])
    other = r"\sum_{j=1}^{k}"
    return rng.choice(
        [
            rf"{sign}_{{k=1}}^{{{top}}} {term}",
            rf"{sign}_{{k={rng.randint(1, 99)}}}^{{{top}}} {other} {term}",
            rf"{sign}_{{k=-{top}}}^{{{top}}} {term}",
            rf"{sign}_{{k=1}} {term}",
            rf"{sign}_{{k}}^{{{top}}}",
            rf"{sign}_{{{term}}}^{{k=1}} {top}",
            rf"{sign}_{{k=1}}^{{{top}}} {sign}_{{j=1}}^{{{top}}} {term} j",
            rf"{sign}_{{k=1}}^{{{top}!}} {term}",
            "+".join(str(rng.randint(1, 10**6)) for _ in range(rng.randint(150, 280))) + "+x",
            rf"{sign}_{{k=1.5}}^{{{top}}} {term}",
        ]
    )


def calculus(rng: Random) -> str:
    """Integrals, limits and derivatives, with and without a closed form."""
    a = rng.randint(2, 99)
    inner = rng.choice([r"e^{-x^2}\sin(x^x)", rf"\frac{{\sin^{{{a}}}(x)}}{{x^{{{a}}}+1}}", rf"x^{{{a}}}\ln(\ln x)"])
    return rng.choice(
        [
            rf"\int_0^{{{a}}} {inner} dx",
            rf"\int_0^1\int_0^1\int_0^1 {inner} y^{{{a}}} dx dy dz",
            rf"\int {inner} dx",
            rf"\int_0^{{\infty}} {inner}",
            rf"\lim_{{x \to \infty}} {inner}",
            rf"\lim_{{x \to {a}}} \lim_{{y \to x}} {inner}",
            rf"\frac{{d^{{{a}}}}}{{dx^{{{a}}}}} {inner}",
            rf"\frac{{\partial}}{{\partial x}} {inner}",
            rf"\oint_{{C}} {inner}",
        ]
    )


def matrices(rng: Random) -> str:
    """Matrices: large, ragged, never ended, raised to powers."""
    rows, columns = rng.randint(1, 25), rng.randint(1, 25)
    entry = rng.choice([lambda: str(rng.randint(-9, 9)), lambda: rng.choice("xyz"), lambda: r"\frac{1}{2}"])
    name = rng.choice(["pmatrix", "bmatrix", "vmatrix", "matrix", "array", "cases", "align"])
    body = r" \\ ".join(" & ".join(entry() for _ in range(columns)) for _ in range(rows))
    if rng.random() < 0.5:
        body = "".join(body[i] for i in range(len(body)) if rng.random() > 0.05)
    start, end = rf"\begin{{{name}}}", rf"\end{{{name}}}"
    power = rng.choice(["", "^{-1}", f"^{{{rng.randint(2, 10**9)}}}", "^T", "!"])
    return rng.choice(
        [
            f"{start} {body} {end}{power}",
            f"{start} {body}",
            f"{body} {end}",
            rf"\det {start} {body} {end}",
            f"{start} {start} {body} {end} {end}",
            rf"{start} {body} \end{{bmatrix}}{power}",
            f"{start} {body} {end} {start} {body} {end}",
        ]
    )


def numbers(rng: Random) -> str:
    """The corners of arithmetic."""
    n = rng.randint(2, 400)
    digits = "".join(rng.choice(string.digits) for _ in range(rng.randint(20, 1200)))
    return rng.choice(
        [
            *_CORNERS,
            f"{n}e{rng.randint(999, 10**9)}",
            f"{n}e-{rng.randint(999, 10**9)}",
            rf"{n} \times 10^{{{rng.randint(999, 10**9)}}}",
            f"{n}.{digits}",
            f"-{digits}1",
            rf"\frac{{{digits}}}{{{digits[::-1]}7}}",
            "0" * rng.randint(2, 1500) + str(n),
            f"{n}.{'0' * rng.randint(2, 1500)}1",
            f"{n}{'%' * rng.randint(2, 9)}",
            f"{'-' * rng.randint(2, 99)}{n}",
            f"{n}{'.' * rng.randint(2, 9)}{n}",
            rf"{n}.\overline{{{rng.randint(1, 99)}}}",
            f"{digits[:300]}/{digits[:300]}3",
            ",".join(digits[i : i + 3] for i in range(0, len(digits), 3)) + "x",
        ]
    )


def lists(rng: Random) -> str:
    """Lists, tuples and sets without end."""
    count = rng.randint(10, 700)
    start, end = rng.choice(
        [("", ""), ("(", ")"), (r"\{", r"\}"), ("[", "]"), (r"\left(", r"\right)"), ("((", "))"), ("", ",")]
    )
    item = rng.choice(
        [lambda i: str(i), lambda i: f"({i},{i + 1})", lambda i: f"x_{{{i}}}", lambda i: "1", lambda i: f"{i}!"]
    )
    return start + rng.choice([",", ", ", r",\ ", ";", " "]).join(item(i) for i in range(count)) + end


def relations(rng: Random) -> str:
    """Equations and inequalities that say nothing, or something else."""
    a, b = rng.randint(1, 999), rng.randint(1000, 6999)
    sign = rng.choice(["=", "<", ">", r"\le", r"\ge", r"\ne", r"\approx", r"\equiv", r"\in", "==", "=="])
    return rng.choice(
        [
            f"{a} {sign} {b}",
            f"x {sign} {a}",
            f"{a} {sign} x {sign} {b}",
            f"x {sign} y {sign} z {sign} {b}",
            f"{sign} {b}",
            f"x {sign}",
            f"f(x) {sign} {a}x^{{{b}}}",
            f" {sign} ".join(str(a + i) for i in range(rng.randint(3, 60))),
            f"x^2 + y^2 {sign} {b}, x {sign} {a}",
            rf"\{{x : x {sign} {a}\}}",
            rf"x \in [{a}, {b}) \cup ({b}, \infty)",
            rf"x \in \mathbb{{R}} \setminus \{{{a}\}}",
            rf"(-\infty, {a}) \cup ({a}, \infty)",
            rf"x {sign} {a} \text{{ or }} x {sign} {b}",
        ]
    )
