#compdef llm-do
# Completions of llm-do for zsh. The program itself says what could come next, so they know the workers, runs and models of
# the project.
#
# Where it goes: a folder of $fpath, as `_llm-do`, or `eval "$(llm-do completions zsh)"`.

_llm-do() {
    local line word files=0 folders=0
    local -a found open
    for line in "${(@f)$("${(Q)words[1]}" complete -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)}"; do
        case "$line" in
        '') ;;
        :files) files=1 ;;
        :folders) folders=1 ;;
        *)
            word=${line%%$'\t'*}
            # A colon in a word is none before its description, and a backslash is none that escapes.
            line="${${word//\\/\\\\}//:/\\:}:${line#*$'\t'}"
            # After `provider:` and `parameter=` more follows.
            case "$word" in
            *[:=]) open+=("$line") ;;
            *) found+=("$line") ;;
            esac
            ;;
        esac
    done
    (( $#found )) && _describe -V 'llm-do' found
    (( $#open )) && _describe -V 'llm-do' open -S ''
    (( files )) && _files
    (( folders )) && _files -/
    return 0
}

if [ "$funcstack[1]" = "_llm-do" ]; then
    _llm-do "$@"
else
    compdef _llm-do llm-do
fi
