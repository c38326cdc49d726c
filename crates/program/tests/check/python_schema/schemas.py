class PitchInput(BaseModel):
    text: str
    count: int
