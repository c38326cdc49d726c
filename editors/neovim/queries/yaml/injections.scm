; extends

; The prompt of a worker in YAML. The indicator `|` is not part of it.
((stream
  (document
    (block_node
      (block_mapping
        (block_mapping_pair
          key: (flow_node) @_key
          value: (block_node
            (block_scalar) @injection.content))))))
  (#eq? @_key "instructions")
  (#offset! @injection.content 0 1 0 0)
  (#set! injection.language "worker"))
