; Front matter and text are highlighted by the languages of injections.scm.

(fence) @punctuation.delimiter

(comment) @comment

["{{" "{{-" "{{+" "}}" "-}}" "+}}" "{%" "{%-" "{%+" "%}" "-%}" "+%}"] @punctuation.special

[
  "as" "autoescape" "block" "break" "call" "context" "continue" "do" "elif" "else" "endautoescape" "endblock" "endcall"
  "endfilter" "endfor" "endif" "endmacro" "endraw" "endset" "endwith" "extends" "filter" "for" "from" "if" "ignore" "import"
  "include" "macro" "missing" "raw" "recursive" "required" "scoped" "set" "with" "without"
] @keyword

(unknown) @keyword

["and" "in" "is" "not" "or"] @keyword.operator

["=" "==" "!=" "<" "<=" ">" ">=" "+" "-" "*" "/" "//" "%" "**" "~" "|"] @operator

["(" ")" "[" "]" "{" "}"] @punctuation.bracket

["," ":" "."] @punctuation.delimiter

(string) @string
(escape) @string.escape
(number) @number
(boolean) @boolean
(none) @constant.builtin

(identifier) @variable
(property) @property
(filter) @function
(test_name) @function
; The only node with two captures: the last one counts.
(call function: (identifier) @function)
