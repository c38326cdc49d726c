// Reads the parts of a worker file whose end a regular expression can't find: front matter, text, comments and raw blocks.
//
// The scanner has no state, and each function reads a character once. An open comment or raw block ends with the file.
#include "tree_sitter/parser.h"

enum Token { OPENING_FENCE, CLOSING_FENCE, LINE_END, YAML, TEXT, COMMENT_TEXT, RAW_TEXT, IN_RECOVERY };

void *tree_sitter_worker_external_scanner_create(void) { return 0; }
void tree_sitter_worker_external_scanner_destroy(void *payload) { (void)payload; }
unsigned tree_sitter_worker_external_scanner_serialize(void *payload, char *buffer) {
    (void)payload;
    (void)buffer;
    return 0;
}
void tree_sitter_worker_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {
    (void)payload;
    (void)buffer;
    (void)length;
}

static inline void take(TSLexer *lexer) { lexer->advance(lexer, false); }
static inline void skip(TSLexer *lexer) { lexer->advance(lexer, true); }

static inline bool is_space(int32_t c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

static inline bool is_in_word(int32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c > 127;
}

// Tells the parser which token was read, if it has any text.
static bool give(TSLexer *lexer, enum Token token, bool has_text) {
    lexer->result_symbol = token;
    return has_text;
}

// Takes a line `---` without its end, and returns whether it is one.
static bool take_fence(TSLexer *lexer, bool is_token) {
    for (int i = 0; i < 3; i++) {
        if (lexer->lookahead != '-') return false;
        take(lexer);
    }
    if (is_token) lexer->mark_end(lexer);
    while (is_space(lexer->lookahead)) take(lexer);
    return lexer->lookahead == '\n' || lexer->eof(lexer);
}

// Text ends before Jinja. Some of it may have been taken already.
static bool take_text(TSLexer *lexer, bool has_text) {
    while (!lexer->eof(lexer)) {
        if (lexer->lookahead == '{') {
            lexer->mark_end(lexer);
            take(lexer);
            int32_t next = lexer->lookahead;
            if (next == '{' || next == '%' || next == '#') return give(lexer, TEXT, has_text);
        } else {
            take(lexer);
        }
        has_text = true;
    }
    lexer->mark_end(lexer);
    return give(lexer, TEXT, has_text);
}

// A file begins with a fence, which blank lines may precede. Otherwise it is text.
static bool take_beginning(TSLexer *lexer) {
    bool is_indented = false;
    while (is_space(lexer->lookahead) || lexer->lookahead == '\n') {
        is_indented = lexer->lookahead != '\n';
        skip(lexer);
    }
    if (lexer->lookahead != '-' || is_indented) return take_text(lexer, false);
    return take_fence(lexer, true) ? give(lexer, OPENING_FENCE, true) : take_text(lexer, true);
}

static bool take_line_end(TSLexer *lexer) {
    while (is_space(lexer->lookahead)) take(lexer);
    if (lexer->lookahead == '\n') take(lexer);
    lexer->mark_end(lexer);
    return give(lexer, LINE_END, true);
}

// The keys end before the first line that is a fence.
static bool take_keys(TSLexer *lexer) {
    bool has_text = false;
    while (!lexer->eof(lexer)) {
        lexer->mark_end(lexer);
        if (take_fence(lexer, !has_text)) return give(lexer, has_text ? YAML : CLOSING_FENCE, true);
        while (lexer->lookahead != '\n' && !lexer->eof(lexer)) take(lexer);
        if (lexer->lookahead == '\n') take(lexer);
        has_text = true;
    }
    lexer->mark_end(lexer);
    return give(lexer, YAML, has_text);
}

static bool take_comment(TSLexer *lexer) {
    bool has_text = false;
    while (!lexer->eof(lexer)) {
        lexer->mark_end(lexer);
        bool may_end = lexer->lookahead == '#';
        take(lexer);
        if (may_end && lexer->lookahead == '}') return give(lexer, COMMENT_TEXT, has_text);
        has_text = true;
    }
    lexer->mark_end(lexer);
    return give(lexer, COMMENT_TEXT, has_text);
}

// Returns whether `{% endraw` begins here. What it takes and refuses is text.
static bool take_endraw(TSLexer *lexer) {
    take(lexer);
    if (lexer->lookahead != '%') return false;
    take(lexer);
    if (lexer->lookahead == '-' || lexer->lookahead == '+') take(lexer);
    while (is_space(lexer->lookahead) || lexer->lookahead == '\n') take(lexer);
    for (const char *letter = "endraw"; *letter; letter++) {
        if (lexer->lookahead != *letter) return false;
        take(lexer);
    }
    return !is_in_word(lexer->lookahead);
}

static bool take_raw(TSLexer *lexer) {
    bool has_text = false;
    while (!lexer->eof(lexer)) {
        if (lexer->lookahead == '{') {
            lexer->mark_end(lexer);
            if (take_endraw(lexer)) return give(lexer, RAW_TEXT, has_text);
        } else {
            take(lexer);
        }
        has_text = true;
    }
    lexer->mark_end(lexer);
    return give(lexer, RAW_TEXT, has_text);
}

bool tree_sitter_worker_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
    (void)payload;
    // While the parser recovers from an error, all tokens are valid.
    if (valid[IN_RECOVERY]) return false;
    if (valid[OPENING_FENCE]) return take_beginning(lexer);
    if (valid[LINE_END]) return take_line_end(lexer);
    if (valid[YAML]) return take_keys(lexer);
    if (valid[COMMENT_TEXT]) return take_comment(lexer);
    if (valid[RAW_TEXT]) return take_raw(lexer);
    // After the keys there is a fence, or the end of the file.
    if (valid[CLOSING_FENCE]) return take_fence(lexer, true) && give(lexer, CLOSING_FENCE, true);
    if (valid[TEXT]) return take_text(lexer, false);
    return false;
}
