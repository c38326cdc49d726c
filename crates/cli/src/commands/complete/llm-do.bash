# Completions of llm-do for bash. The program itself says what could come next, so they know the workers, runs and models of
# the project.
#
# Where it goes: ~/.local/share/bash-completion/completions/llm-do, or `eval "$(llm-do completions bash)"`.

_llm_do() {
    local -a words=()
    local line word current skip
    # bash splits at `:` and `=`, which are parts of names here: the words are those that are separated by spaces.
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    case "${COMP_LINE:0:COMP_POINT}" in
    *[[:space:]]) words+=("") ;;
    esac
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
            # A name that the shell would read as something else is quoted.
            case "$word" in *[!A-Za-z0-9_./:=@%+,-]*) printf -v word '%q' "$word" ;; esac
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
