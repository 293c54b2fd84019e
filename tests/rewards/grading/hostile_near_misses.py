r"""Wrong answers that are almost right.

Each family makes (completion, gold, answer format, status). The verdicts follow from arithmetic and
from the conventions of docs/rewards.md, not from what the grader says.
"""

from __future__ import annotations

import math
from random import Random

from .hostile_answers import FORMATS, WORDS, marked

#: Words after a number that make another number of it.
_CHANGES = ("squared", "cubed", "factorial", "tenths", "hundredths", "quarters", "minus one", "plus two", "thousand")
SHORT_WORDS = ("odd", "yes", "Bob", "Amy", "red", "tea", "dog")


def near_miss(rng: Random) -> tuple[str, str, str, str]:
    """An answer that is almost right, and wrong."""
    pairs = rng.choice((_near_in_value, _near_in_value, _near_in_form, _near_in_form, _near_in_words))(rng)
    answer, gold = rng.choice(pairs)
    answer_format = rng.choices(FORMATS, (6, 2, 1, 1))[0]
    return f"Hence {marked(answer, answer_format)}", gold, answer_format, "wrong"


def vanishing(rng: Random) -> tuple[str, str, str, str]:
    """Differences that are not zero, but too small to show in hundreds of digits."""
    k, root = rng.randint(300, 5000), rng.choice([2, 3, 5, 6, 7])
    answer, gold = rng.choice(
        [
            (f"e^{{-{k}}}", "0"),
            (f"1 + e^{{-{k}}}", "1"),
            (f"x + e^{{-{k}}}", "x"),
            (rf"\left(\frac{{\pi}}{{4}}\right)^{{{k}}}", "0"),
            (rf"\frac{{\pi}}{{10^{{{k}}}}}", rf"\frac{{e}}{{10^{{{k}}}}}"),
            (rf"\sqrt{{{root}}} \cdot 10^{{{k}}} + 1", rf"\sqrt{{{root}}} \cdot 10^{{{k}}}"),
            (rf"\frac{{\sqrt{{{root}}}}}{{{k}!}}", rf"\frac{{\sqrt{{11}}}}{{{k}!}}"),
            (rf"\cos(10^{{-{k}}})", "1"),
            (rf"\tanh({k})", "1"),
            (rf"\arctan(10^{{{k}}})", r"\frac{\pi}{2}"),
            (rf"x + \frac{{\sqrt{{{root}}}}}{{10^{{{k}}}}}", "x"),
        ]
    )
    return f"Hence {marked(answer, 'boxed')}", gold, "boxed", "wrong or timeout"


def _near_in_value(rng: Random) -> list[tuple[str, str]]:
    """Numbers that differ by less than a tolerance forgives, by a sign or by a digit."""
    n, k = rng.randint(2, 999), rng.randint(7, 300)
    root = rng.choice([i for i in range(2, 999) if math.isqrt(i) ** 2 != i])
    third = rng.choice([3, 7, 9, 11, 13, 17])
    above = rng.choice([i for i in range(1, 99) if i % third])
    factorial = rng.choice((rng.randint(20, 900), 2006))
    long = str(rng.randint(10**49, 10**50 - 2))
    places = rng.randint(2, 6)  # twelve digits and more would be the value, rounded
    small = rng.randint(15, 40)
    return [
        (rf"\frac{{1}}{{{factorial}!}}", rf"\frac{{1}}{{{factorial - 2}!}}"),
        (f"{n}\\%", str(n + 1)),
        (str(10 * n), f"{n}\\%"),
        (f"{math.sqrt(root):.{places}f}", rf"\sqrt{{{root}}}"),
        (rf"\sqrt{{{root}}}", f"{math.sqrt(root):.{places}f}"),
        (f"{above / third:.{places}f}", rf"\frac{{{above}}}{{{third}}}"),
        (f"{n * math.pi:.{places}f}", rf"{n}\pi"),
        (rf"\frac{{{22 * n}}}{{7}}", rf"{n}\pi"),
        (f"{math.exp(n / 999):.{places}f}", rf"e^{{\frac{{{n}}}{{999}}}}"),
        (f"2 \\times 10^{{-{k}}}", f"10^{{-{k}}}"),
        (f"10^{{-{k}}}", "0"),
        (f"0.{'0' * k}1", f"0.{'0' * k}2"),
        (rf"\sqrt{{{root}}} \cdot 10^{{-{k}}}", rf"\sqrt{{{root + 1}}} \cdot 10^{{-{k}}}"),
        (rf"\sqrt{{{root}}} \cdot 10^{{{k}}}", rf"\sqrt{{{root}}} \cdot 10^{{{k}}} + 1"),
        (rf"\sqrt{{{root}}} + 10^{{-{small}}}", rf"\sqrt{{{root}}}"),
        (rf"\frac{{\pi}}{{10^{{{k}}}}}", rf"\frac{{e}}{{10^{{{k}}}}}"),
        (f"10^{{{k + 10}}} + 1", f"10^{{{k + 10}}}"),
        (f"2^{{{k}}} + 1", f"2^{{{k}}}"),
        (str(2**k + 1), f"2^{{{k}}}"),
        (rf"\sqrt{{10^{{{2 * small}}}+1}} - 10^{{{small}}}", "0"),
        (rf"e^{{-{k + 20}}}", "0"),
        (rf"e^{{-{k}}}", rf"e^{{-{k + 1}}}"),
        (rf"\left(\frac{{1}}{{2}}\right)^{{{k}}}", rf"\left(\frac{{1}}{{2}}\right)^{{{k + 1}}}"),
        (rf"\cos(10^{{-{small}}})", "1"),
        (rf"\arctan(10^{{{small}}})", r"\frac{\pi}{2}"),
        (f"1 - 10^{{-{k}}}", "1"),
        ("0." + "9" * k, "1"),
        (rf"\frac{{10^{{{k}}}+1}}{{10^{{{k}}}}}", "1"),
        (long, str(int(long) + 1)),
        (f"0.{long}", f"0.{int(long) + 1}"),
        (rf"\frac{{{long}}}{{3}}", rf"\frac{{{int(long) + 1}}}{{3}}"),
        (rf"{long}\sqrt{{2}}", rf"{int(long) + 1}\sqrt{{2}}"),
        (rf"{long}x", f"{int(long) + 1}x"),
        (f"x + 10^{{-{small}}}", "x"),
        (f"x^{{{n}}}", f"x^{{{n + 1}}}"),
        (f"-{n}", str(n)),
        (rf"-\sqrt{{{root}}}", rf"\sqrt{{{root}}}"),
        (rf"-\frac{{{above}}}{{{third}}}", rf"\frac{{{above}}}{{{third}}}"),
        (f"{n} - {n + 1}i", f"{n} + {n + 1}i"),
        (f"{n}i", str(n)),
        (r"-\infty", r"\infty"),
        (rf"\frac{{{n}}}{{0}}", r"\infty"),
        (f"{n}!", str(n)),
        (f"{n}.0000000001", str(n)),
        (rf"0.\overline{{{third}}}", f"0.{third}"),
        (rf"{n}\frac{{1}}{{3}}", rf"\frac{{{n}}}{{3}}"),
        (rf"\sqrt[3]{{{root}}}", rf"\sqrt{{{root}}}"),
        (rf"e^{{\pi\sqrt{{163}}}} + {n}", str(262537412640768744 + n)),
        (rf"\lfloor |x| \rfloor + {n}", str(n + 1)),
    ]


def _near_in_form(rng: Random) -> list[tuple[str, str]]:
    """Pairs, sets, intervals, equations, matrices with one thing changed."""
    a = rng.randint(1, 500)
    b, c = a + rng.randint(1, 400), rng.randint(1000, 2000)
    sign, other = rng.sample(["<", ">", r"\le", r"\ge"], 2)
    return [
        (rf"\{{{a}, {b}\}}", f"({a}, {b})"),
        (f"({a}, {b})", rf"\{{{a}, {b}\}}"),
        (rf"\{{{a}, {b}, {c}\}}", f"({a}, {b}, {c})"),
        (f"({b}, {a})", f"({a}, {b})"),
        (f"({b}, {c}, {a})", f"({a}, {b}, {c})"),
        (f"[{a}, {b}]", f"({a}, {b})"),
        (f"[{a}, {b})", f"({a}, {b}]"),
        (rf"(-\infty, {a})", rf"(-\infty, {a}]"),
        (rf"({a}, \infty)", rf"(-\infty, {a})"),
        (rf"({a},{b}) \cap ({b},{c})", rf"({a},{b}) \cup ({b},{c})"),
        (f"{a}, {b}, {c}", f"{a}, {b}"),
        (str(a), f"{a}, {b}"),
        (rf"\{{{a}\}}", rf"\{{{a}, {b}\}}"),
        (r"\emptyset", rf"\{{{a}\}}"),
        (r"\emptyset", "0"),
        (f"({a}, {b}), ({c}, {a})", f"({a}, {b}), ({a}, {c})"),
        (f"{a} = {c}", str(a)),
        (f"{c} = {a}", str(a)),
        (f"{c} = {b} = {a}", str(a)),
        (rf"{a} \ne {c}", str(a)),
        (f"{a} < {c}", str(a)),
        (f"x < {a}", str(a)),
        (rf"x \ne {a}", str(a)),
        (rf"\pm {a}", str(a)),
        (str(a), rf"\pm {a}"),
        (f"x {sign} {a}", f"x {other} {a}"),
        (f"{a} {sign} x {sign} {c}", f"{a} {other} x {other} {c}"),
        (f"y = {a}x + {b}", f"y = {a}x - {b}"),
        (f"x = {a}", f"x = {b}"),
        (f"y = {a}", f"x = {a}"),
        (f"{a}x + {b}", f"{a}y + {b}"),
        (f"{a}x + {b}", f"{b}x + {a}"),
        (f"{a}X", f"{a}x"),
        (f"{a}x", str(a)),
        (rf"{a}\sqrt{{{c}}}", rf"{c}\sqrt{{{a}}}"),
        (rf"\begin{{pmatrix}} {a} \\ {b} \end{{pmatrix}}", rf"\begin{{pmatrix}} {b} \\ {a} \end{{pmatrix}}"),
        (
            rf"\begin{{pmatrix}} {a} & {b} \\ {c} & 0 \end{{pmatrix}}",
            rf"\begin{{pmatrix}} {a} & {c} \\ {b} & 0 \end{{pmatrix}}",
        ),
        (
            rf"\begin{{pmatrix}} {a} & {b} & 0 \\ {c} & 1 & 0 \end{{pmatrix}}",
            rf"\begin{{pmatrix}} {a} & {b} \\ {c} & 1 \end{{pmatrix}}",
        ),
        (f"{a + 100}_8", f"{a + 100}_9"),
        (f"{a}:{b}", f"{b}:{a}"),
        (f"{a}:{c}:{b}", f"{a}:{b}:{c}"),
        (f"{a}'{b}''", f"{a}{b}"),
        (f"f(x) = {a}x", f"f(x) = {b}x"),
        (rf"\log_{{{a + 1}}} {c}", rf"\log_{{{c}}} {a + 1}"),
        (rf"\binom{{{c}}}{{2}}", rf"\frac{{{c}}}{{2}}"),
        (f"x^{{{a}}} + {b}", f"x^{{{b}}} + {a}"),
        (rf"\frac{{{a}}}{{x}}", rf"\frac{{x}}{{{a}}}"),
        (f"|{-a}|", str(-a)),
        (f"{b}x = {a}", str(a)),
        (f"x + {b} = {a}", str(a)),
        (f"x^2 = {a}", str(a)),
        (f"-x = {a}", str(a)),
        (rf"\sqrt{{x}} = {a}", str(a)),
        (rf"{a} \approx {c}", str(a)),
        (f"x^3 = {a}x^2", f"x = {a}"),
        (f"x^2 y = {a}x^3 + {b}x^2", f"y = {a}x + {b}"),
        (f"x^4 + x^2 y^2 = {b}x^2", f"x^2 + y^2 = {b}"),
        ("Xy", "xY"),
        (f"{a}x", f"{a}x'"),
        (rf"\overline{{{c}}}", str(c)),
        (rf"(0, {a}) \cup ({b}, {c})", rf"(0, {a}) \cup ({b}, {c}]"),
        (rf"(0, 1 - 10^{{-20}}) \cup ({b}, {c})", rf"(0, 1) \cup ({b}, {c})"),
        (rf"(-\infty, 1.41421) \cup ({b}, \infty)", rf"(-\infty, \sqrt{{2}}) \cup ({b}, \infty)"),
    ]


def _near_in_words(rng: Random) -> list[tuple[str, str]]:
    """Words and units that look alike."""
    n = rng.randint(2, 9999)
    word, second = rng.sample(WORDS, 2)
    short = rng.choice(SHORT_WORDS)
    unit, unlike = rng.sample(["cm", "m", "km", "inches", "feet", "miles", "kg", "g", "hours", "minutes", "seconds"], 2)
    letter, wrong_letter = rng.sample("ABCDE", 2)
    anagram, short_anagram = _anagram(word, rng), _anagram(short, rng)
    return [
        (anagram, word),
        (rf"\text{{{anagram}}}", rf"\text{{{word}}}"),
        (rf"\text{{{short_anagram}}}", rf"\text{{{short}}}"),
        (short_anagram, rf"\text{{{short}}}"),
        (rf"\text{{{second}}}", rf"\text{{{word}}}"),
        (rf"\text{{not {word}}}", rf"\text{{{word}}}"),
        (f"{word} or {second}", rf"\text{{{word}}}"),
        (rf"\text{{{word} and {second}}}", rf"\text{{{word}}}"),
        (word[:-2], rf"\text{{{word}}}"),
        (rf"{n} \text{{ {unit}}}", rf"{n} \text{{ {unlike}}}"),
        (rf"{n} \text{{ cm}}^2", rf"{n} \text{{ cm}}^3"),
        (f"{n} million", str(n)),
        (f"{n} dozen", str(n)),
        (rf"{n} \text{{ hundred}}", str(n)),
        (rf"{n % 12 + 1} \text{{ a.m.}}", rf"{n % 12 + 1} \text{{ p.m.}}"),
        (rf"\text{{({letter})}}", rf"\text{{({wrong_letter})}}"),
        (letter, wrong_letter),
        (f"({letter}) or ({wrong_letter})", letter),
        (rf"\text{{{letter}, {wrong_letter}}}", rf"\text{{{letter}}}"),
        ("yes", "no"),
        (r"\text{even}", r"\text{odd}"),
        (rf"\text{{{word}}}", str(n)),
        (str(n), rf"\text{{{word}}}"),
        (f"not {n}", str(n)),
        (rf"\text{{not }} {n}", str(n)),
        (rf"\text{{more than }} {n}", str(n)),
        (f"about {n}", f"{n}.4"),
        (f"{n} {rng.choice(_CHANGES)}", str(n)),
        (rf"{n} \text{{ {rng.choice(_CHANGES)}}}", str(n)),
        (rf"{n} \text{{ m/s}}", rf"{n} \text{{ km/h}}"),
        (rf"{n} \text{{ cents}}", rf"\${n}"),
    ]


def _anagram(word: str, rng: Random) -> str:
    """The letters of a word in an order that is another word, whatever the case."""
    letters = list(word)
    while "".join(letters).casefold() == word.casefold():
        rng.shuffle(letters)
    return "".join(letters)
