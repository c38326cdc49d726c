//! GGUF files made by tests: a model of a few kilobytes, and harmful files.

/// Builds a GGUF file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gguf {
    entries: Vec<u8>,
    count: u64,
    tensors: Vec<(String, Vec<u64>)>,
}

/// Widths of the tiny model.
const EMBEDDING: u64 = 32;
const FEED_FORWARD: u64 = 64;
const LAYERS: u32 = 2;
/// Most tokens of a conversation.
const WINDOW: u32 = 4096;

impl Gguf {
    /// Makes a complete model of two layers with random weights. Its tokens are single characters, and it writes
    /// printable ones only, so that a text is split into the same tokens again. It never ends an answer by itself.
    pub(crate) fn tiny() -> Self {
        let mut file = Self::llama(LAYERS);
        let mut tokens = vec![("<unk>".to_owned(), 2), ("<s>".to_owned(), 3), ("</s>".to_owned(), 3)];
        tokens.extend((0..=255).map(|byte| (format!("<0x{byte:02X}>"), 6)));
        tokens.push(("\u{2581}".to_owned(), 1));
        tokens.extend(('!'..='~').map(|letter| (letter.to_string(), 1)));
        let tokens: Vec<(String, i32)> = tokens;
        file.text("tokenizer.ggml.model", "llama");
        file.array("tokenizer.ggml.tokens", 8, tokens.iter().map(|(text, _)| string(text)));
        file.array("tokenizer.ggml.scores", 6, tokens.iter().map(|_| 0f32.to_le_bytes().to_vec()));
        file.array(
            "tokenizer.ggml.token_type",
            5,
            tokens.iter().map(|(_, kind)| kind.to_le_bytes().to_vec()),
        );
        file.entry("tokenizer.ggml.add_space_prefix", 7, &[0]);
        let vocabulary = tokens.len() as u64;
        file.tensor("token_embd.weight", &[EMBEDDING, vocabulary]);
        file.tensor("output_norm.weight", &[EMBEDDING]);
        file.tensor("output.weight", &[EMBEDDING, vocabulary]);
        for layer in 0..LAYERS {
            for (name, shape) in [
                ("attn_norm", &[EMBEDDING][..]),
                ("attn_q", &[EMBEDDING, EMBEDDING]),
                ("attn_k", &[EMBEDDING, EMBEDDING]),
                ("attn_v", &[EMBEDDING, EMBEDDING]),
                ("attn_output", &[EMBEDDING, EMBEDDING]),
                ("ffn_norm", &[EMBEDDING]),
                ("ffn_gate", &[EMBEDDING, FEED_FORWARD]),
                ("ffn_down", &[FEED_FORWARD, EMBEDDING]),
                ("ffn_up", &[EMBEDDING, FEED_FORWARD]),
            ] {
                file.tensor(&format!("blk.{layer}.{name}.weight"), shape);
            }
        }
        file
    }

    /// Makes a file with which llama.cpp ends its process while it loads: it asserts that a model has layers.
    pub(crate) fn that_aborts() -> Self {
        Self::llama(0)
    }

    /// Makes a file with the parameters of a model, without a vocabulary and without weights.
    fn llama(layers: u32) -> Self {
        let mut file = Self::default();
        file.text("general.architecture", "llama");
        for (key, value) in [
            ("llama.context_length", WINDOW),
            ("llama.embedding_length", 32),
            ("llama.block_count", layers),
            ("llama.feed_forward_length", 64),
            ("llama.attention.head_count", 2),
        ] {
            file.entry(key, 4, &value.to_le_bytes());
        }
        file.entry("llama.attention.layer_norm_rms_epsilon", 6, &1e-5f32.to_le_bytes());
        file
    }

    fn entry(&mut self, key: &str, kind: u32, value: &[u8]) {
        self.entries.extend(string(key));
        self.entries.extend(kind.to_le_bytes());
        self.entries.extend(value);
        self.count += 1;
    }

    fn text(&mut self, key: &str, value: &str) {
        self.entry(key, 8, &string(value));
    }

    fn array(&mut self, key: &str, kind: u32, values: impl ExactSizeIterator<Item = Vec<u8>>) {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        bytes.extend(values.flatten());
        self.entry(key, 9, &bytes);
    }

    fn tensor(&mut self, name: &str, shape: &[u64]) {
        self.tensors.push((name.to_owned(), shape.to_vec()));
    }

    /// Returns the file's content.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend(self.count.to_le_bytes());
        bytes.extend(&self.entries);
        let mut offset = 0u64;
        for (name, shape) in &self.tensors {
            bytes.extend(string(name));
            bytes.extend(u32::try_from(shape.len()).expect("few dimensions").to_le_bytes());
            shape.iter().for_each(|size| bytes.extend(size.to_le_bytes()));
            bytes.extend(0u32.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
            offset += (shape.iter().product::<u64>() * 4).next_multiple_of(32);
        }
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        let mut random = 1u64;
        for (name, shape) in &self.tensors {
            let printable = shape.last().map_or(0, |size| size.saturating_sub(95));
            for index in 0..shape.iter().product::<u64>() {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let value = f32::from(i16::try_from(random >> 49).unwrap_or(0)) / 16_384.0 - 1.0;
                let value = match name.as_str() {
                    // A row of zeros is never the likeliest token.
                    "output.weight" if index / shape[0] < printable => 0.0,
                    name if name.contains("norm") => 1.0,
                    _ => value * 0.6,
                };
                bytes.extend(value.to_le_bytes());
            }
            bytes.resize(bytes.len().next_multiple_of(32), 0);
        }
        bytes
    }
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}
