"""Ways in which models write an answer, and near misses. Each row was once graded differently."""

import pytest

from reward_ablation.rewards import grade_answer

SAME = [
    # clocks
    (r"3:30 \text{ p.m.}", "3:30 PM"),
    # what models leave around an answer
    ("72", "# 72"),
    ("72", "`72`"),
    ("72", r"72 \tag{1}"),
    ("72", r"72\hspace{1cm}"),
    ("72", r"72 \blacksquare"),
    ("72", r"\Large 72"),
    ("72", r"\bf 72"),
    ("72", r"\emph{72}"),
    ("72", "72\\\\"),
    ("(1, 2)", r"\((1, 2)\)"),
    # commands with several names
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\\\2\end{pmatrix}"),
    ("3:4", r"3\colon 4"),
    (r"(-\infty, 5]", r"x \leq 5"),
    (r"(-\infty, 5]", "x <= 5"),
    (r"[5, \infty)", "x >= 5"),
    (r"(-\infty, 3)", r"x \lt 3"),
    (r"(3, \infty)", r"x \gt 3"),
    (r"(3, \infty)", r"\{x \mid x>3\}"),
    (r"x \ne 5", "x <> 5"),
    (r"\mathbb{R}", r"\R"),
    (r"\ln 2", r"\log_e 2"),
    ("90", "90^o"),
    ("90", r"90\degree"),
    (r"3 \pmod 7", r"3 \bmod{7}"),
    # bases
    ("1011_2", "(1011)_2"),
    # choices
    ("B", "(B) 12"),
    ("B", "B. 12"),
    ("B", r"\textbf{(B)}\ 12"),
    ("B", r"\text{Option B}"),
    ("A, C", "A and C"),
    # Unicode and plain text
    (r"2\sqrt{3}", "2√3"),
    (r"2\sqrt{3}", "2sqrt(3)"),
    (r"\frac{3}{2}", "1½"),
    ("x^2+2x+1", "x**2+2*x+1"),
    ("x^{12}", "x¹²"),
    (r"2\pi", "2pi"),
    (r"(-\infty, 5)", "(-infinity, 5)"),
    ("3, -3", "±3"),
    ("72", "**72**"),
    ("72", r"\text{The answer is } 72"),
    ("72", r"\textcolor{red}{72}"),
    ("5", r"\begin{aligned}x&=5\end{aligned}"),
    (r"10^{-2}", "10^-2"),
    (r"x \equiv 5 \pmod 7", r"x \equiv 5 \pmod{7}"),
    (r"1, 2, \ldots, n", "1, 2, ..., n"),
    (r"\frac{1}{3}", r"0.\bar{3}"),
    (r"\frac{1}{3}", "0.333..."),
    ("1000000", r"1 \text{ million}"),
    ("twelve", "12"),
    # units
    (r"36\text{ km/h}", "36 kilometers per hour"),
    (r"72", r"72^\circ \text{F}"),
    ("10", "10weeks"),
    (r"8\sqrt{3}", r"8\sqrt{3} cm"),
    # percent signs, as models write them: ToRA's answers to GSM8K have 20\% and 35.0\%
    ("72", r"72\text{ per cent}"),
    ("20", r"20\%"),
    ("35", r"35.0\%"),
    (r"17\%", "17"),
    (r"17\%", "0.17"),
    ("60", "60%"),
    ("60", r"60\,\%"),
    ("60", r"60\text{\%}"),
    ("60", "60％"),
    ("60", "60 percent"),
    ("60", "60percent"),
    ("60", "60 pct"),
    # words for a symbol, as models box them
    (r"\emptyset", r"\text{No solution}"),
    (r"\varnothing", r"\text{No real solutions}"),
    (r"\emptyset", r"\text{No solution exists}"),
    (r"\text{no solution}", r"\emptyset"),
    (r"\mathbb{R}", r"\text{all real numbers}"),
    (r"(-\infty, \infty)", r"\text{all real numbers}"),
    (r"\infty", r"\text{infinitely many}"),
    # Chinese and Japanese stops and digits
    ("5", "5。"),
    ("3.5", "３．５"),
    ("B", "B。"),
    # structure
    (r"\begin{pmatrix} 1 \\ 1 \\ 1 \end{pmatrix}", "[1, 1, 1]"),  # a model's normal vector of x + y + z = 1
    (r"\begin{pmatrix} -18 \\ -49 \\ 96 \end{pmatrix}", "(-18, -49, 96)"),
    (r"(-\infty, 1) \cup (2, \infty)", r"x < 1 \text{ or } x > 2"),
    (r"(-\infty, 1) \cup (1, \infty)", r"x \ne 1"),
    (r"(-\infty, \infty)", r"\mathbb{R}"),
    ("f(x) = 2x + 3", "y = 2x + 3"),
    ("72", r"m\angle ABC = 72^\circ"),
    (r"\text{no solution}", "no solutions"),
    # formulae
    (r"\frac{1}{2}", r"\sin 30^\circ"),
    (r"\cos(x)", r"\sin(90^{\circ} - x)"),
    ("3ab", "3ba"),
    (r"\sqrt{ab}", r"\sqrt{a}\sqrt{b}"),
    (r"\ln x^2", r"2\ln x"),
    (r"a^{x+y}", "a^x a^y"),
    (r"\binom{2n}{n}", r"\frac{(2n)!}{(n!)^2}"),
    ("(n-1)!", r"\frac{n!}{n}"),
    (r"\sin 2x", r"2\sin x\cos x"),
]

DIFFERENT = [
    # variables that a parser takes for units
    ("10", "10t"),
    ("3m", "3g"),
    (r"\sqrt{2}", r"\sqrt{2}m"),
    ("y=2x+3t", "y=2x+3"),
    # equations and inequalities that are even in all variables
    ("x^2+y^2=4", "x^2+y^2=2"),
    (r"\frac{x^2}{9}+\frac{y^2}{4}=1", r"\frac{x^2}{4}+\frac{y^2}{9}=1"),
    ("|x|+|y|=1", "|x|+|y|=2"),
    ("x=5", "x^3=5x^2"),
    # an equation is no label
    ("5", "2x=5"),
    ("9", "x^2=9"),
    ("4308", r"4308 \approx 4873"),
    # letters
    ("ABC", "CBA"),
    ("TTH", "HTT"),
    ("no", "on"),
    (r"\text{Venus}", "Venu"),
    ("AB", "ab"),
    ("E", "2.718281828459045"),
    ("f'(x)", "f(x)"),
    (r"\Delta", r"\delta"),
    (r"\text{(A) and (B)}", r"\text{(A)}"),
    # words that change a number
    ("72", "72 squared"),
    ("B", "B. 或C"),  # Chinese "or": two choices
    ("B", "(B) 和C"),
    ("33", "--33"),  # equal to the parser
    ("33", "- -33"),
    # percent
    (r"60\text{ cm}", r"60\%"),
    (r"60\text{ eggs}", r"60\%"),
    (r"60^\circ", "60 percent"),
    (r"60\%", r"\$60"),
    ("60", "60 percentage points"),
    (r"60\%", "6"),
    # words for a symbol
    (r"\emptyset", "0"),
    (r"\emptyset", r"\text{no integer solutions}"),
    (r"\mathbb{R}", r"\text{all real numbers except } 0"),
    (r"\mathbb{R}", r"\text{all positive real numbers}"),
    (r"-\infty", r"\text{infinitely many}"),
    (r"\infty", r"\text{many}"),
    ("72", "72 is wrong"),
    ("4", r"4\text{ths}"),
    ("5", r"5\text{ M}"),
    ("3", "3 billionths"),
    ("3", "3 twelfths"),
    ("5", "5 tens"),
    ("72", r"72 \text{ maybe seventy one}"),
    ("5", r"5 \text{ choose two}"),
    ("B", "B. or C"),
    ("B", "(B) or (C)"),
    ("1", r"\{1, \{1\}\}"),
    # units
    (r"30\text{ km/h}", r"30\text{ m/s}"),
    (r"\$5", "5 cents"),
    (r"30^\circ", r"30\text{ radians}"),
    (r"\sin 30^\circ", r"\sin 30"),
    # numerals, clocks, ratios
    ("72", "72_8"),
    ("5", "5_a"),
    ("0:30", "0:45"),
    ("3:30 PM", "3:30 AM"),
    ("29:1706:289", "29:289:1706"),
    ("1, 5", "1.5"),
    # labels out of order
    ("(1, 2)", "y=1, x=2"),
    (r"\emptyset", r"\{\emptyset\}"),
    # formulae
    ("x", r"x+e^{-3000}"),
    (r"\sqrt{2}\cdot 10^{2000}", r"\sqrt{2}\cdot 10^{2000}+1"),
    ("1", r"\lfloor |x| \rfloor"),
    ("1", r"1+e^{-4!\cdot 4}"),
    ("1", r"1+e^{-\pi^4}"),
    ("1", r"1+e^{-e^{9}}"),
    (r"\frac{\pi}{2}", r"\arctan(10^{26})"),
    (r"\frac{\pi}{2}", r"\arctan(e^{e^{6}})"),
    ("1", "0.9999999999999999999"),
    (r"\frac{\sqrt{3}}{2}", "0.8660254037844386"),
]


@pytest.mark.parametrize(("gold", "answer"), SAME)
def test_says_the_same(gold, answer):
    assert grade_answer(answer, gold).status == "correct"


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_is_only_like_it(gold, answer):
    assert grade_answer(answer, gold).status == "wrong"


@pytest.mark.parametrize("count", [500, 990])
def test_a_long_list_is_compared_with_its_like_in_no_time(count):
    """Pair by pair would take minutes, and in this process."""
    numbers = [str(number % 10) for number in range(count)]
    assert grade_answer(",".join(reversed(numbers)), ",".join(numbers)).status == "correct"
    assert grade_answer(",".join(["5", *numbers[1:]]), ",".join(numbers)).status == "wrong"


@pytest.mark.parametrize("brackets", [r"\{%s\}", "{%s}", "(%s)", "[%s]", r"\langle %s \rangle"])
def test_lists_in_lists_are_compared_part_by_part(brackets):
    """Nested as deep as allowed. A comparison that reads each level twice would never end."""
    answer = gold = "1"
    for level in range(19):
        answer, gold = brackets % f"1, {answer}", brackets % f"1, {gold}"
        assert grade_answer(answer, gold).status == "correct"
        assert grade_answer(answer, "7").status == "wrong"
        assert grade_answer(answer.replace("1", "7", 1), gold).status == "wrong", level
    for _ in range(3):
        answer = brackets % f"1, {answer}"
    assert grade_answer(answer, "1").status == "unparseable"
