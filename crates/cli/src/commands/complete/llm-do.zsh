#compdef llm-do
# Completions of llm-do for zsh. The program itself says what could come next, so they know the workers, runs and models of
# the project.
#
# Where it goes: a folder of $fpath, as `_llm-do`, or `eval "$(llm-do completions zsh)"`.

_llm-do() {
    local line files=0 folders=0
    local -a found
    for line in "${(@f)$("${(Q)words[1]}" complete -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)}"; do
        case "$line" in
        '') ;;
        :files) files=1 ;;
        :folders) folders=1 ;;
        # A colon in a word is none before its description.
        *) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    (( $#found )) && _describe -V 'llm-do' found
    (( files )) && _files
    (( folders )) && _files -/
    return 0
}

if [ "$funcstack[1]" = "_llm-do" ]; then
    _llm-do "$@"
else
    compdef _llm-do llm-do
fi
