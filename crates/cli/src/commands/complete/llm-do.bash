# Completions of llm-do for bash. The program itself says what could come next, so they know the workers, runs and models of
# the project.
#
# Where it goes: ~/.local/share/bash-completion/completions/llm-do, or `eval "$(llm-do completions bash)"`.

# Splits the line up to the cursor into `words`, without backslashes and quotes. Nothing is expanded. `quote` is the quote that
# is open at the end. bash's own COMP_WORDS are split at `:` and `=`, which are parts of names here.
_llm_do_words() {
    local line=${COMP_LINE:0:COMP_POINT} word= started= i char
    for ((i = 0; i < ${#line}; i++)); do
        char=${line:i:1}
        case "$quote$char" in
        \" | \') quote=$char started=1 ;;
        \"\" | \'\') quote= ;;
        \\ | \"\\)
            i=$((i + 1)) started=1
            # In double quotes, a backslash escapes few characters.
            case "$quote${line:i:1}" in \"[!\"\\\$\`]) word+=$char ;; esac
            word+=${line:i:1}
            ;;
        [[:space:]])
            [ -z "$started" ] || words+=("$word")
            word= started=
            ;;
        *) word+=$char started=1 ;;
        esac
    done
    words+=("$word")
}

_llm_do() {
    local -a words=()
    local line word current skip quote=
    _llm_do_words
    current=${words[${#words[@]} - 1]}
    # Of that word, bash replaces what follows the last of its own separators.
    skip=
    case "$COMP_WORDBREAKS" in *:*) case "$current" in *:*) skip=${current%"${current##*:}"} ;; esac ;; esac
    case "$COMP_WORDBREAKS" in
    *=*) case "${current#"$skip"}" in *=*) skip=${current%"${current##*[:=]}"} ;; esac ;;
    esac
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
        :files)
            compopt -o filenames 2>/dev/null
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "${current#"$skip"}")
            ;;
        :folders)
            compopt -o filenames 2>/dev/null
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -d -- "${current#"$skip"}")
            ;;
        *)
            word=${line%%$'\t'*}
            word=${word#"$skip"}
            # A name that the shell would read as something else is quoted. bash itself quotes inside quotes.
            case "$quote$word" in [!\"\']*[!A-Za-z0-9_./:=@%+,-]* | [!A-Za-z0-9_./:=@%+,\"\'-]*) printf -v word '%q' "$word" ;; esac
            COMPREPLY+=("$word")
            ;;
        esac
    done < <("${words[0]}" complete -- "${words[@]}" 2>/dev/null)
    # After `provider:` the name of a model follows.
    if [ ${#COMPREPLY[@]} = 1 ]; then
        case "${COMPREPLY[0]}" in *: | *=) compopt -o nospace 2>/dev/null ;; esac
    fi
}
complete -F _llm_do llm-do
