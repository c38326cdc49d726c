[(front_matter) (comment) (raw) (output) (statement)] @fold
