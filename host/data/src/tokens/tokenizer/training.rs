//! A new tokenizer, learnt from texts: byte pairs (Sennrich et al., 2016) of bytes as in GPT-2.

use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, TokenizerImpl};

use super::{Tokenizer, guarded};

/// Smallest vocabulary: all bytes, and the end of a document.
pub(in crate::tokens) const LEAST: usize = 257;

/// Name of the token at the end of a document.
pub(in crate::tokens) const END: &str = "<|endoftext|>";

/// Most bytes of text to learn from: the library counts pairs in 32 bits.
pub(in crate::tokens) const MOST_TEXT: u64 = 1 << 31;

/// Bytes in, pairs of them, bytes out.
type Learnt = TokenizerImpl<BPE, NormalizerWrapper, ByteLevel, ByteLevel, ByteLevel>;

/// Learns a tokenizer with a vocabulary of `size` from pieces of text.
///
/// # Errors
///
/// What is wrong, in words.
pub(in crate::tokens) fn train(
    size: usize,
    pieces: impl Iterator<Item = String> + Send,
) -> Result<Tokenizer, String> {
    tokenizers::utils::parallelism::set_parallelism(false);
    let bytes = ByteLevel::default().add_prefix_space(false);
    let mut learnt = Learnt::new(BPE::default());
    learnt.with_pre_tokenizer(Some(bytes));
    learnt.with_decoder(Some(ByteLevel::default()));
    let mut trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(size)
        .special_tokens(vec![AddedToken::from(END, true)])
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    guarded(|| learnt.train(&mut trainer, pieces).map(drop))?;
    let json = guarded(|| learnt.to_string(false))?;
    Tokenizer::from_bytes(json.into_bytes())
}
