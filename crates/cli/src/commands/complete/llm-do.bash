# Completions of llm-do for bash. The program itself says what could come next, so they know the workers, runs and models of
# the project.
#
# Where it goes: ~/.local/share/bash-completion/completions/llm-do, or `eval "$(llm-do completions bash)"`.

# Splits the line up to the cursor into `words`, without backslashes and quotes. Nothing is expanded. `quote` is the quote that
# is open at the end, and `skip` the beginning of the last word that bash does not replace: it replaces what follows the last of
# its own separators (COMP_WORDBREAKS), among which `:` and `=` are parts of names here.
_llm_do_words() {
    local line=${COMP_LINE:0:COMP_POINT} word= started= i char
    for ((i = 0; i < ${#line}; i++)); do
        char=${line:i:1}
        case "$quote$char" in
        \" | \') quote=$char started=1 skip=$word ;;
        \"\" | \'\') quote= skip=$word ;;
        \\ | \"\\)
            i=$((i + 1)) started=1
            # In double quotes, a backslash escapes few characters.
            case "$quote${line:i:1}" in \"[!\"\\\$\`]) word+=$char ;; esac
            word+=${line:i:1}
            ;;
        [[:space:]])
            [ -z "$started" ] || words+=("$word")
            word= started= skip=
            ;;
        *)
            word+=$char started=1
            case "$quote$COMP_WORDBREAKS" in [!\"\']*"$char"* | "$char"*) skip=$word ;; esac
            ;;
        esac
    done
    words+=("$word")
}

# Writes `word` so that the shell reads it as one word and expands nothing in it. In the quote that is open, bash quotes nothing
# by itself, and it adds the closing quote unless the word ends with it.
_llm_do_quote() {
    local text= i char
    if [ -z "$quote" ]; then
        case "$word" in *[!A-Za-z0-9_./:=@%+,-]*) printf -v word '%q' "$word" ;; esac
        return
    fi
    for ((i = 0; i < ${#word}; i++)); do
        char=${word:i:1}
        case "$quote$char" in
        \"[\\\$\`]) text+=\\$char ;;
        \"[\"\!]) text+=\"\\$char\" ;;
        \'\') text+=\'\\\'\' ;;
        *) text+=$char ;;
        esac
    done
    # At the end, a quote opens no other one, and any other character opens one for the quote that bash adds.
    case "$quote${word: -1}" in
    \"\" | \'\') text=${text%?} ;;
    \"\!) text+=\" ;;
    esac
    # A word that begins with the quote replaces the one that is open.
    case "$text" in "$quote"*) text=$quote$text ;; esac
    word=$text
}

_llm_do() {
    local -a words=() found=()
    local line word current skip= quote= files=
    _llm_do_words
    current=${words[${#words[@]} - 1]}
    while IFS= read -r line; do
        case "$line" in
        :files) files=-f ;;
        :folders) files=-d ;;
        *) found+=("${line%%$'\t'*}") ;;
        esac
    done < <("${words[0]}" complete -- "${words[@]}" 2>/dev/null)
    COMPREPLY=()
    for word in "${found[@]+"${found[@]}"}"; do
        word=${word#"$skip"}
        # bash quotes the names of files itself, but no others.
        [ -n "$files" ] || _llm_do_quote
        COMPREPLY+=("$word")
    done
    if [ -n "$files" ]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen "$files" -- "${current#"$skip"}")
    fi
    # After `provider:` the name of a model follows.
    if [ ${#COMPREPLY[@]} = 1 ]; then
        case "${COMPREPLY[0]}" in *: | *=) compopt -o nospace 2>/dev/null ;; esac
    fi
}
complete -F _llm_do llm-do
