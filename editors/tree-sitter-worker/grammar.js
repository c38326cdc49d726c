/**
 * The grammar of worker files: front matter between two lines `---`, then text with Jinja.
 *
 * YAML and Markdown have grammars of their own, which `queries/injections.scm` names. Statements are flat: `{% if %}` does not
 * contain what follows it, because one missing `{% endif %}` would otherwise turn the rest of the file into an error.
 */

/// <reference types="tree-sitter-cli/dsl" />

// The levels of Jinja's operators, the weakest first.
const LEVEL = { condition: 1, or: 2, and: 3, not: 4, compare: 5, sum: 6, concat: 7, product: 8, sign: 9, power: 10, postfix: 11 };

const list = (rule) => optional(seq(rule, repeat(seq(",", rule)), optional(",")));

module.exports = grammar({
  name: "worker",

  // White space between two tokens of Jinja. In front matter and text, the scanner takes it first.
  extras: ($) => [/\s/],

  externals: ($) => [$._opening_fence, $._closing_fence, $._line_end, $.yaml, $.text, $.comment_text, $.raw_text, $._in_recovery],

  word: ($) => $.identifier,

  supertypes: ($) => [$.expression],

  rules: {
    worker: ($) => seq(optional($.front_matter), repeat(choice($.text, $.comment, $.raw, $.output, $.statement))),

    // The scanner gives an end of line after each fence, also at the end of the file. In a file that is being typed, the second
    // fence may be missing, and the rest is YAML.
    front_matter: ($) =>
      seq(
        alias($._opening_fence, $.fence),
        $._line_end,
        optional($.yaml),
        optional(seq(alias($._closing_fence, $.fence), $._line_end)),
      ),

    comment: ($) => seq("{#", optional($.comment_text), "#}"),

    raw: ($) => seq($._begin, "raw", $._end, optional($.raw_text), $._begin, "endraw", $._end),

    output: ($) => seq(choice("{{", "{{-", "{{+"), $._expressions, choice("}}", "-}}", "+}}")),

    _begin: () => choice("{%", "{%-", "{%+"),
    _end: () => choice("%}", "-%}", "+%}"),

    // A statement that is being typed has a part of its name, or nothing behind it. The language server reports that.
    statement: ($) =>
      seq(
        $._begin,
        optional(
          choice(
            seq(choice("if", "elif"), $.expression),
            $._for,
            $._set,
            seq("with", list($.assignment)),
            seq("block", optional(seq(field("name", $.identifier), optional("scoped"), optional("required")))),
            seq("endblock", optional(field("name", $.identifier))),
            seq("extends", optional($.expression)),
            seq("include", optional(seq($.expression, optional(seq("ignore", "missing")), optional($._context)))),
            seq("import", optional(seq($.expression, "as", field("name", $.identifier), optional($._context)))),
            seq("from", optional(seq($.expression, "import", $.imported, repeat(seq(",", $.imported)), optional(","), optional($._context)))),
            seq("macro", optional(seq(field("name", $.identifier), $.parameters))),
            seq("endmacro", optional(field("name", $.identifier))),
            seq("call", optional(seq(optional($.parameters), alias($._macro_call, $.call)))),
            seq("filter", optional(seq($._filter, repeat(seq("|", $._filter))))),
            seq("autoescape", optional($.expression)),
            seq("do", optional($.expression)),
            choice("else", "endif", "endfor", "endset", "endwith", "endcall", "endfilter", "endautoescape", "break", "continue"),
            seq(alias($.identifier, $.unknown), optional($._expressions)),
          ),
        ),
        $._end,
      ),

    _for: ($) =>
      prec.right(
        seq(
          "for",
          optional(seq($._targets, optional(seq("in", $.items, optional(seq("if", $.expression)), optional("recursive"))))),
        ),
      ),
    // `for a in b if c` has a filter and no conditional expression.
    items: ($) => prec.right(LEVEL.condition + 1, seq($.expression, repeat(seq(",", $.expression)), optional(","))),

    _set: ($) => seq("set", optional(choice(seq($._targets, "=", $._expressions), seq($._targets, repeat(seq("|", $._filter)))))),

    _targets: ($) => seq($._target, repeat(seq(",", $._target)), optional(",")),
    _target: ($) => choice($.identifier, alias($._member, $.attribute), seq("(", $._targets, ")")),
    _member: ($) => seq($.identifier, repeat1(seq(".", field("name", alias($.identifier, $.property))))),
    _macro_call: ($) => seq(field("function", choice($.identifier, alias($._member, $.attribute))), $.arguments),
    _context: () => seq(choice("with", "without"), "context"),
    _expressions: ($) => seq($.expression, repeat(seq(",", $.expression)), optional(",")),

    assignment: ($) => seq(field("name", $.identifier), "=", field("value", $.expression)),
    imported: ($) => seq(field("name", $.identifier), optional(seq("as", field("alias", $.identifier)))),
    parameters: ($) => seq("(", list($.parameter), ")"),
    parameter: ($) => seq(field("name", $.identifier), optional(seq("=", field("default", $.expression)))),

    expression: ($) =>
      choice(
        $.identifier,
        $.string,
        $.number,
        $.boolean,
        $.none,
        $.list,
        $.map,
        $.group,
        $.attribute,
        $.subscript,
        $.call,
        $.filtered,
        $.test,
        $.unary,
        $.binary,
        $.conditional,
      ),

    list: ($) => seq("[", list($.expression), "]"),
    map: ($) => seq("{", list($.pair), "}"),
    pair: ($) => seq(field("key", $.expression), ":", field("value", $.expression)),
    group: ($) => seq("(", list($.expression), ")"),

    attribute: ($) => prec(LEVEL.postfix, seq(field("object", $.expression), ".", field("name", choice(alias($.identifier, $.property), $.number)))),
    subscript: ($) => prec(LEVEL.postfix, seq(field("object", $.expression), "[", choice($.expression, $.slice), "]")),
    slice: ($) => seq(optional($.expression), ":", optional($.expression), optional(seq(":", optional($.expression)))),
    call: ($) => prec(LEVEL.postfix, seq(field("function", $.expression), $.arguments)),
    arguments: ($) => seq("(", list(choice($.expression, $.assignment, $.spread)), ")"),
    spread: ($) => seq(choice("*", "**"), $.expression),

    filtered: ($) => prec.left(LEVEL.postfix, seq($.expression, "|", optional($._filter))),
    _filter: ($) => prec.right(seq(field("filter", alias($.identifier, $.filter)), optional($.arguments))),

    test: ($) =>
      prec.right(
        LEVEL.postfix,
        seq(
          $.expression,
          "is",
          optional("not"),
          field("test", alias(choice($.identifier, "in", $.boolean, $.none), $.test_name)),
          optional(choice($.arguments, $._argument)),
        ),
      ),
    // `is divisibleby 3`: an argument without parentheses.
    _argument: ($) => choice($.identifier, $.string, $.number, $.list, $.map),

    unary: ($) => choice(prec(LEVEL.not, seq("not", $.expression)), prec(LEVEL.sign, seq(choice("-", "+"), $.expression))),

    binary: ($) =>
      choice(
        ...[
          [LEVEL.or, "or"],
          [LEVEL.and, "and"],
          [LEVEL.compare, choice("==", "!=", "<", "<=", ">", ">=", "in", seq("not", "in"))],
          [LEVEL.sum, choice("+", "-")],
          [LEVEL.concat, "~"],
          [LEVEL.product, choice("*", "/", "//", "%")],
          [LEVEL.power, "**"],
        ].map(([level, operator]) => prec.left(level, seq($.expression, operator, $.expression))),
      ),

    conditional: ($) => prec.right(LEVEL.condition, seq($.expression, "if", $.expression, optional(seq("else", $.expression)))),

    identifier: () => /[\p{XID_Start}_][\p{XID_Continue}]*/,
    number: () => /0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|\d[\d_]*(\.\d[\d_]*)?([eE][+-]?\d+)?/,
    boolean: () => choice("true", "True", "false", "False"),
    none: () => choice("none", "None"),

    // Content and escapes are tokens of their own, so that an open string is not read once for each quote in it.
    string: ($) =>
      choice(
        seq('"', repeat(choice(token.immediate(prec(1, /[^"\\]+/)), $.escape)), token.immediate('"')),
        seq("'", repeat(choice(token.immediate(prec(1, /[^'\\]+/)), $.escape)), token.immediate("'")),
      ),
    escape: () => token.immediate(prec(1, /\\(.|\r?\n)/)),
  },
});
