((yaml) @injection.content
  (#set! injection.language "yaml"))

; All text is one document: a list continues after `{% endfor %}`.
([(text) (raw_text)] @injection.content
  (#set! injection.language "markdown")
  (#set! injection.combined))
